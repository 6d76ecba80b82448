// Custom ops: kept whole, with every argument, for the kernel that is registered under the op's
// name.
#include <fmt/format.h>

#include "core/ops/op_schema.h"
#include "lowering/import/importer.h"
#include "lowering/program/custom_kernel.h"

namespace octet {
namespace {

// Inputs and attributes of one call as they are collected.
struct Call {
  std::vector<int> inputs;
  Attributes attributes;
};

void add_tensors(Importer& importer, const std::string& name, const std::vector<Value*>& values,
                 Call& call) {
  for (Value* value : values)
    call.inputs.push_back(value == nullptr ? -1 : importer.tensor_of(value));
  call.attributes[name] = static_cast<int64_t>(values.size());
}

// False when a Program cannot hold such an argument.
bool add_argument(Importer& importer, const std::string& name, const Argument& argument,
                  Call& call) {
  if (Value* value = argument.value_or_null()) {
    if (value->kind() != ValueKind::kTensor) return false;
    call.inputs.push_back(importer.tensor_of(value));
  } else if (argument.find<OptionalTensor>() != nullptr) {
    call.inputs.push_back(-1);
  } else if (const std::vector<Value*>* list = argument.find<std::vector<Value*>>()) {
    add_tensors(importer, name, *list, call);
  } else if (const OptionalTensors* optional = argument.find<OptionalTensors>()) {
    add_tensors(importer, name, optional->items, call);
  } else if (const bool* flag = argument.find<bool>()) {
    call.attributes[name] = *flag;
  } else if (const int64_t* integer = argument.find<int64_t>()) {
    call.attributes[name] = *integer;
  } else if (const SymIntLiteral* size = argument.find<SymIntLiteral>()) {
    call.attributes[name] = size->value;
  } else if (const double* real = argument.find<double>()) {
    call.attributes[name] = *real;
  } else if (const SymFloatLiteral* number = argument.find<SymFloatLiteral>()) {
    call.attributes[name] = number->value;
  } else if (const std::string* text = argument.find<std::string>()) {
    call.attributes[name] = *text;
  } else if (const std::vector<int64_t>* integers = argument.find<std::vector<int64_t>>()) {
    call.attributes[name] = *integers;
  } else if (const std::vector<double>* reals = argument.find<std::vector<double>>()) {
    call.attributes[name] = *reals;
  } else {
    return argument.is_none();
  }
  return true;
}

const Argument* find_given(const Node& node, const OpSchema* schema, const SchemaArgument& wanted) {
  if (const Argument* given = node.find_argument(wanted.name)) return given;
  return schema != nullptr && wanted.has_default ? &wanted.default_value : nullptr;
}

// The schema's arguments in its order; without a schema, those that the call gives.
bool collect(Importer& importer, const Node& node, const OpSchema* schema, Call& call) {
  const auto add = [&](const std::string& name, const Argument& argument) {
    if (add_argument(importer, name, argument, call)) return true;
    importer.refuse(node, fmt::format("has an argument \"{}\" of a type that a lowered program "
                                      "cannot hold, want tensors, numbers, text or lists of them",
                                      name));
    return false;
  };
  if (schema == nullptr) {
    for (const NamedArgument& argument : node.arguments())
      if (!add(argument.name, argument.value)) return false;
    return true;
  }
  for (const SchemaArgument& wanted : schema->arguments) {
    const Argument* given = find_given(node, schema, wanted);
    if (wanted.type == "Tensor?" && (given == nullptr || given->is_none())) {
      call.inputs.push_back(-1);
    } else if (given != nullptr && !add(wanted.name, *given)) {
      return false;
    }
  }
  return true;
}

}  // namespace

void import_custom(Importer& importer, const Node& node) {
  const OpSchema* schema = find_op_schema(node.target());
  if (schema != nullptr && schema->is_mutable())
    return importer.refuse(node, "writes into its arguments; make it return its results");
  const std::vector<Value*> outputs = node.outputs();
  if (outputs.empty()) return importer.refuse(node, "gives no tensor");
  for (const Value* value : outputs)
    if (value->kind() != ValueKind::kTensor)
      return importer.refuse(node, fmt::format("gives %{}, which is no tensor", value->name()));
  Call call;
  if (!collect(importer, node, schema, call)) return;
  call.attributes[kCustomOpAttribute] = node.target();
  importer.emit_values(node, outputs, "custom", std::move(call.inputs), std::move(call.attributes));
}

}  // namespace octet

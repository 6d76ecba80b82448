// Imports nodes whole: custom ops, with all arguments, for the custom kernel registered under their
// name; and nodes without a row, as graphs in text, for the backend torch.
#include <map>

#include <fmt/format.h>

#include "core/ops/op_schema.h"
#include "core/text/text.h"
#include "lowering/import/rows.h"
#include "lowering/import/steps.h"
#include "lowering/program/custom_kernel.h"

namespace octet {
namespace {

// The inputs and attributes of one call while they are collected.
struct Call {
  std::vector<int> inputs;
  Attributes attributes;
};

void add_tensors(Steps& s, const std::string& name, const std::vector<Value*>& values, Call& call) {
  for (Value* value : values) call.inputs.push_back(value == nullptr ? -1 : s.tensor_of(value));
  call.attributes[name] = static_cast<int64_t>(values.size());
}

// Returns false if a Program cannot hold the argument.
bool add_argument(Steps& s, const std::string& name, const Argument& argument, Call& call) {
  if (Value* value = argument.value_or_null()) {
    if (value->kind() != ValueKind::kTensor) return false;
    call.inputs.push_back(s.tensor_of(value));
  } else if (argument.find<OptionalTensor>() != nullptr) {
    call.inputs.push_back(-1);
  } else if (const std::vector<Value*>* list = argument.find<std::vector<Value*>>()) {
    add_tensors(s, name, *list, call);
  } else if (const OptionalTensors* optional = argument.find<OptionalTensors>()) {
    add_tensors(s, name, optional->items, call);
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

// Collects the arguments in the order of the schema; without a schema, those that the call gives.
bool collect(Steps& s, const Node& node, const OpSchema* schema, Call& call) {
  const auto add = [&](const std::string& name, const Argument& argument) {
    if (add_argument(s, name, argument, call)) return true;
    s.refuse(
        fmt::format("has an argument \"{}\" of a type that a lowered program "
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

void import_custom(Steps& s, const Node& node) {
  const OpSchema* schema = find_op_schema(node.target());
  if (schema != nullptr && schema->is_mutable())
    return s.refuse("writes into its arguments; make it return its results");
  const std::vector<Value*> outputs = node.outputs();
  if (outputs.empty()) return s.refuse("returns no tensor");
  for (const Value* value : outputs)
    if (value->kind() != ValueKind::kTensor)
      return s.refuse(fmt::format("returns %{}, which is not a tensor", value->name()));
  Call call;
  if (!collect(s, node, schema, call)) return;
  call.attributes[attr::kCustomOp] = node.target();
  s.emit_values(outputs, "custom", std::move(call.inputs), std::move(call.attributes));
}

std::string find_part_missing(const Node& node) {
  const std::vector<Value*> results = node.outputs();
  if (results.empty()) return "returns no tensor";
  for (const Value* value : results)
    if (value->kind() != ValueKind::kTensor || !value->meta)
      return "returns something other than tensors";
  for (const Value* value : node.inputs())
    if (value->kind() != ValueKind::kTensor) return "takes sizes that are not fixed";
  return "";
}

std::string keep_whole(Steps& s, const Node& node) {
  if (std::string missing = find_part_missing(node); !missing.empty()) return missing;
  const std::vector<Value*> results = node.outputs();
  Graph graph;
  std::map<Value*, Value*> copies;
  std::vector<int> inputs;
  const auto copy_of = [&](Value* value) {
    Value*& copy = copies[value];
    if (copy != nullptr) return copy;
    const int tensor = s.tensor_of(value);
    inputs.push_back(tensor);
    return copy = graph.add_input(value->name(), ValueKind::kTensor,
                                  make_meta(s.tensor(tensor).dtype, s.tensor(tensor).shape));
  };
  std::vector<NamedArgument> arguments = node.arguments();
  for (NamedArgument& argument : arguments) rewrite_values(argument.value, copy_of);
  Node* twin = graph.add_node(node.target(), std::move(arguments), node.name());
  for (const ResultSlot& slot : node.results()) {
    std::vector<std::string> names;
    std::vector<std::optional<TensorMeta>> metas;
    for (const Value* value : slot.values) {
      if (value == nullptr) return "has results that are absent";
      names.push_back(value->name());
      metas.push_back(make_meta(value->meta->dtype, value->meta->shape()));
    }
    if (slot.kind == ResultSlot::Kind::kLiteral)
      graph.add_literal_result(*twin, slot.literal);
    else if (slot.kind == ResultSlot::Kind::kSingle)
      graph.add_result(*twin, names[0], metas[0]);
    else
      graph.add_list_result(*twin, names, metas);
  }
  for (Value* value : twin->outputs()) graph.add_output({value, OutputKind::kUserOutput, ""});
  s.emit_values(results, "aten", std::move(inputs),
                {{attr::kOp, node.target()}, {attr::kGraph, to_text(graph)}});
  return "";
}

}  // namespace octet

// Writes the inputs and outputs of a model, and the message of an export that fails.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "lowering/import/size.h"
#include "tools/onnx/writer.h"

namespace octet {
namespace {

// "s0", "2*s0"; torch's expression if SizeExpr cannot represent it.
std::string size_text(const Dim& dim) {
  try {
    return parse_size(dim.expr, "").to_text();
  } catch (const Error&) {
    return dim.expr;
  }
}

std::vector<OnnxDim> dims_of(const ProgramTensor& tensor) {
  std::vector<OnnxDim> dims;
  for (size_t d = 0; d < tensor.shape.size(); ++d)
    dims.push_back(tensor.sizes.empty() || tensor.sizes[d].is_number()
                       ? OnnxDim{tensor.shape[d], ""}
                       : OnnxDim{0, tensor.sizes[d].to_text()});
  return dims;
}

OnnxValue border(const Value& value) {
  if (!value.meta)
    throw Error("onnx", "%" + value.name(),
                "has no recorded shape; export the program with torch.export");
  OnnxValue result{value.name(), onnx_type_of(value.meta->dtype, "%" + value.name()), {}};
  for (const Dim& dim : value.meta->sizes)
    result.dims.push_back(dim.is_symbolic() ? OnnxDim{0, size_text(dim)} : OnnxDim{dim.value, ""});
  return result;
}

}  // namespace

OnnxValue typed_value(const std::string& name, const ProgramTensor& tensor) {
  return {name, onnx_type_of(tensor.dtype, tensor.name), dims_of(tensor)};
}

void OnnxWriter::add_inputs() {
  const auto add = [&](int index, OnnxValue value) {
    names_.insert(value.name);
    given_.insert(value.name);
    if (index >= 0) top_.names[static_cast<size_t>(index)] = value.name;
    model_.inputs.push_back(std::move(value));
  };
  size_t position = 0;
  for (const GraphInput& input : source_.inputs()) {
    if (input.kind != InputKind::kUserInput && input.kind != InputKind::kConstant) continue;
    const int index = top_.program.inputs[position++];
    if (input.kind != InputKind::kUserInput) continue;
    if (input.value->kind() != ValueKind::kTensor)
      throw Error("onnx", "%" + input.value->name(),
                  "is an input that is not a tensor; export the program with tensors only");
    add(index, border(*input.value));
  }
  for (const ProgramOp& op : top_.program.ops)
    for (int index : op.outputs) names_.insert(top_.program.tensor(index).name);
  for (const ProgramState& state : top_.program.states)
    add(state.value, typed_value(state.name, top_.program.tensor(state.value)));
  for (const OnnxValue& input : model_.inputs) output_names_.insert(input.name);
  for (const GraphOutput& output : source_.outputs())
    if (const Value* value = output.value.value_or_null()) names_.insert(value->name());
}

// Gives each output a unique name, the value's name if possible.
void OnnxWriter::add_result(OnnxValue value, const std::string& name) {
  if (name != value.name || output_names_.contains(name)) {
    if (output_names_.contains(value.name)) value.name = fresh_name(value.name);
    add_node({"Identity", value.name, {name}, {value.name}, {}, {}});
  }
  output_names_.insert(value.name);
  model_.outputs.push_back(std::move(value));
}

void OnnxWriter::add_outputs() {
  size_t position = 0;
  for (const GraphOutput& output : source_.outputs()) {
    if (output.kind != OutputKind::kUserOutput) continue;
    Value* value = output.value.value_or_null();
    if (value == nullptr || value->kind() != ValueKind::kTensor)
      throw Error("onnx", fmt::format("output {}", model_.outputs.size()),
                  "is not a tensor; export a program that returns only tensors");
    add_result(border(*value), name_of(top_.program.outputs[position++]));
  }
  for (const ProgramState& state : top_.program.states) {
    OnnxValue value = typed_value(state.name + ".next", top_.program.tensor(state.next));
    model_.metadata.emplace_back("octet.state." + state.name, value.name);
    add_result(std::move(value), name_of(state.next));
  }
}

void OnnxWriter::fail() const {
  struct RefusedOp {
    std::string target, why, first;
    std::unordered_set<std::string> calls;
  };
  std::vector<RefusedOp> ops;
  std::unordered_set<std::string> calls;
  for (const Refusal& refusal : refusals_) {
    auto known = std::ranges::find_if(ops, [&](const RefusedOp& op) {
      return op.target == refusal.target && op.why == refusal.why;
    });
    if (known == ops.end())
      known = ops.insert(ops.end(), {refusal.target, refusal.why, refusal.name, {}});
    known->calls.insert(refusal.name);
    calls.insert(refusal.name);
  }
  Names texts;
  for (const RefusedOp& op : ops) {
    const std::string why = op.why.empty() ? "" : " " + op.why;
    texts.push_back(op.calls.size() == 1 ? fmt::format("{} (%{}){}", op.target, op.first, why)
                                         : fmt::format("{} ({} of them, the first %{}){}",
                                                       op.target, op.calls.size(), op.first, why));
  }
  throw Error("onnx", source_.source.empty() ? "the program" : source_.source,
              fmt::format("{} of {} calls have no form in ONNX: {}; express them otherwise in the "
                          "model",
                          calls.size(), nodes_.size(), fmt::join(texts, "; ")));
}

OnnxModel OnnxWriter::run() {
  add_inputs();
  add_ops(top_.program);
  if (!refusals_.empty()) fail();
  add_outputs();
  if (!refusals_.empty()) fail();
  return std::move(model_);
}

}  // namespace octet

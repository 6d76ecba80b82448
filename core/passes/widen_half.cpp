#include "core/passes/rewrites.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/base/half.h"

namespace octet {
namespace {

constexpr std::array<std::string_view, 4> kConversions = {
    "aten.to", "aten._to_copy", "prims.convert_element_type",
    "quantized_decomposed.convert_element_type"};

bool is_half(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }
bool is_half(const Value& value) { return value.meta && is_half(value.meta->dtype); }

Tensor widened(const Tensor& narrow) {
  const Tensor from = narrow.contiguous();
  Tensor to = Tensor::zeros(DType::kFloat32, from.shape());
  const auto* bits = from.data<uint16_t>();
  auto* out = to.data<float>();
  const auto widen = from.dtype() == DType::kBFloat16 ? bfloat_to_float : half_to_float;
  for (int64_t i = 0; i < from.numel(); ++i) out[i] = widen(bits[i]);
  return to;
}

// Tied weights stay tied.
void widen_constants(Graph& graph) {
  using Key = std::tuple<const Storage*, int64_t, std::vector<int64_t>, std::vector<int64_t>>;
  std::map<Key, Tensor> done;
  for (auto& [fqn, constant] : graph.constants) {
    const Tensor narrow = constant.tensor;
    if (!narrow.defined() || !is_half(narrow.dtype())) continue;
    Tensor& wide =
        done[{narrow.storage().get(), narrow.offset(), narrow.shape(), narrow.strides()}];
    if (!wide.defined()) wide = widened(narrow);
    constant.tensor = wide;
  }
}

int widen(Value& value) {
  if (!is_half(value)) return 0;
  value.meta->dtype = DType::kFloat32;
  return 1;
}

// Widens values, dtype arguments, and bodies.
int widen_values(Graph& graph) {
  widen_constants(graph);
  int changes = 0;
  for (const GraphInput& input : graph.inputs())
    if (input.value != nullptr) changes += widen(*input.value);
  for (Node* node : graph.nodes()) {
    const std::vector<NamedArgument> arguments = node->arguments();
    for (const NamedArgument& argument : arguments) {
      if (const auto* dtype = argument.value.find<DType>(); dtype != nullptr && is_half(*dtype))
        node->set_argument(argument.name, DType::kFloat32, argument.kind);
      if (const auto* body = argument.value.find<Subgraph>()) changes += widen_values(*body->graph);
    }
    for (Value* value : node->outputs())
      if (value != nullptr) changes += widen(*value);
  }
  return changes;
}

Value* converted(Graph& graph, Value& value, DType dtype, Node* before) {
  TensorMeta meta = *value.meta;
  meta.dtype = dtype;
  Node* node = graph.insert("aten.to.dtype", {{"self", &value}, {"dtype", dtype}},
                            fmt::format("{}_{}", value.name(), name_of(dtype)), meta, before);
  return node->output();
}

void convert_input(Graph& graph, Value& input, DType dtype) {
  const std::vector<Node*> readers = input.users();
  if (!readers.empty()) {
    const std::vector<Node*> nodes = graph.nodes();
    Value* wide = converted(graph, input, DType::kFloat32, nodes.front());
    for (Node* reader : readers) reader->replace_input(&input, wide);
  }
  input.meta->dtype = dtype;
}

bool leaves_program(OutputKind kind) {
  return kind == OutputKind::kUserOutput || kind == OutputKind::kUserInputMutation;
}

}  // namespace

bool computes_in_half(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    const bool converts =
        std::ranges::any_of(kConversions, [&](std::string_view op) { return node->is(op); });
    for (const Value* value : node->outputs())
      if (!converts && value != nullptr && is_half(*value)) return true;
    for (const NamedArgument& argument : node->arguments())
      if (const auto* body = argument.value.find<Subgraph>())
        if (computes_in_half(*body->graph)) return true;
  }
  return false;
}

int widen_half(Graph& graph) {
  std::vector<std::pair<Value*, DType>> inputs;
  for (Value* input : graph.user_inputs())
    if (is_half(*input)) inputs.emplace_back(input, input->meta->dtype);
  std::map<size_t, DType> outputs;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Value* value = graph.outputs()[i].value.value_or_null();
    if (value != nullptr && leaves_program(graph.outputs()[i].kind) && is_half(*value))
      outputs[i] = value->meta->dtype;
  }

  const int changes = widen_values(graph);
  std::map<Value*, Value*> narrow;
  for (const auto& [index, dtype] : outputs) {
    Value* value = graph.outputs()[index].value.value_or_null();
    if (const GraphInput* input = graph.find_input(value);
        input != nullptr && input->kind == InputKind::kUserInput)
      continue;  // passed through unchanged
    Value*& given = narrow[value];
    if (given == nullptr) given = converted(graph, *value, dtype, nullptr);
    graph.set_output(index, given);
  }
  for (const auto& [input, dtype] : inputs) convert_input(graph, *input, dtype);
  return changes;
}

InFloat32::InFloat32(const Graph& graph) : graph_(&graph) {
  if (!computes_in_half(graph)) return;
  copy_ = clone(graph);
  widen_half(*copy_);
}

}  // namespace octet

#include "annotate/graph/qdq_nodes.h"

#include "annotate/graph/control_flow.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr std::string_view kQdqNamespace = "quantized_decomposed.";
constexpr std::array<std::string_view, 3> kPortedMetadata = {"nn_module_stack", "stack_trace",
                                                             "quantization_tag"};

// "per_tensor.default" for "quantized_decomposed.quantize_per_tensor.default"; "" for another verb.
std::string_view kind_of(const Node* node, std::string_view verb) {
  if (node == nullptr) return {};
  std::string_view target = node->target();
  if (!target.starts_with(kQdqNamespace)) return {};
  target.remove_prefix(kQdqNamespace.size());
  if (!target.starts_with(verb)) return {};
  target.remove_prefix(verb.size());
  return target.starts_with("per_tensor.") || target == "per_channel.default" ? target
                                                                              : std::string_view();
}

Node* producer_of_argument(const Node* node, std::string_view name) {
  const Value* input = node == nullptr ? nullptr : node->find_input(name);
  return input == nullptr ? nullptr : input->producer();
}

Argument argument_of(const Node& node, std::string_view name) {
  const Argument* argument = node.find_argument(name);
  if (argument == nullptr) return None{};
  Value* value = argument->value_or_null();
  if (value != nullptr) return value;
  if (argument->find<OptionalTensor>() != nullptr) return None{};
  return *argument;
}

std::optional<DType> dtype_of(const Node& node, std::string_view name) {
  const Argument* argument = node.find_argument(name);
  const DType* dtype = argument == nullptr ? nullptr : argument->find<DType>();
  return dtype == nullptr ? std::nullopt : std::optional<DType>(*dtype);
}

void collect_points(const Graph& graph, std::vector<Node*>& points) {
  for (Node* node : graph.nodes())
    if (is_observer_node(node)) points.push_back(node);
}

}  // namespace

bool is_quantize(const Node* node) { return !kind_of(node, "quantize_").empty(); }
bool is_dequantize(const Node* node) { return !kind_of(node, "dequantize_").empty(); }

bool is_any_dequantize(const Node* node) {
  return node != nullptr && (node->target().starts_with("quantized_decomposed.dequantize") ||
                             node->target().starts_with("torchao.dequantize"));
}

bool is_dequantized(const Value* value) {
  return value != nullptr && is_any_dequantize(value->producer());
}

std::optional<Quantization> find_quantization(const Node* node) {
  if (!is_quantize(node) && !is_dequantize(node)) return std::nullopt;
  Quantization result;
  result.is_per_channel = node->find_argument("scales") != nullptr;
  result.input = node->find_input("input");
  result.scale = argument_of(*node, result.is_per_channel ? "scales" : "scale");
  result.zero_point = argument_of(*node, result.is_per_channel ? "zero_points" : "zero_point");
  if (const int64_t* number = result.scale.find<int64_t>())
    result.scale = static_cast<double>(*number);
  result.axis = node->int_or("axis", -1);
  const Argument* min = node->find_argument("quant_min");
  const Argument* max = node->find_argument("quant_max");
  const std::optional<DType> dtype = dtype_of(*node, "dtype");
  if (result.input == nullptr || !dtype || min == nullptr || max == nullptr) return std::nullopt;
  if (min->find<int64_t>() == nullptr || max->find<int64_t>() == nullptr) return std::nullopt;
  result.quant_min = *min->find<int64_t>();
  result.quant_max = *max->find<int64_t>();
  result.dtype = *dtype;
  result.out_dtype = dtype_of(*node, "out_dtype");
  return result;
}

Node* find_choose_qparams(const Node* dequantize) {
  Node* choose = producer_of_argument(producer_of_argument(dequantize, "input"), "scale");
  return choose != nullptr && choose->target().starts_with("quantized_decomposed.choose_qparams")
             ? choose
             : nullptr;
}

std::optional<TensorMeta> with_dtype(std::optional<TensorMeta> meta, DType dtype) {
  if (!meta) return meta;
  meta->dtype = dtype;
  meta->requires_grad = false;
  return meta;
}

void port_metadata(Node& to, const std::map<std::string, std::string>& metadata) {
  for (std::string_view key : kPortedMetadata) {
    const auto it = metadata.find(std::string(key));
    if (it != metadata.end()) to.metadata[it->first] = it->second;
  }
}

bool is_observer_node(const Node* node) {
  return node != nullptr && node->target() == kObserveTarget;
}

std::vector<Node*> observer_nodes(const Graph& graph) {
  std::vector<Node*> points;
  collect_points(graph, points);
  for (const Body& body : bodies_within(graph)) collect_points(*body.graph, points);
  return points;
}

int group_of(const Node& observer_node) {
  const int64_t group = observer_node.int_or("group", -1);
  OCTET_ASSERT(is_observer_node(&observer_node) && group >= 0, observer_node.name());
  return static_cast<int>(group);
}

const Value* through_observers(const Value* value) {
  while (value != nullptr && is_observer_node(value->producer()))
    value = value->producer()->find_input("input");
  return value;
}

Value* through_observers(Value* value) {
  return const_cast<Value*>(through_observers(static_cast<const Value*>(value)));
}

Value* observed_value(const Node& observer_node) {
  return through_observers(observer_node.find_input("input"));
}

Node* insert_observer_node(Graph& graph, Value* input, int group, std::string name, Node* before) {
  std::vector<NamedArgument> arguments = {{"input", input}, {"group", int64_t{group}}};
  return graph.insert(std::string(kObserveTarget), std::move(arguments), std::move(name),
                      input->meta, before);
}

}  // namespace octet

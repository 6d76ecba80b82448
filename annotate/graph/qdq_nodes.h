// Reads the nodes of q/dq graphs (quantize and dequantize of quantized_decomposed), and reads and
// inserts observer nodes.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// quantize_per_tensor or quantize_per_channel in any overload, and their dequantize counterparts.
bool is_quantize(const Node* node);    // false for null
bool is_dequantize(const Node* node);  // false for null
// Any dequantize op, including those per token, per group and of torchao; and whether one produced
// the value.
bool is_any_dequantize(const Node* node);  // false for null
bool is_dequantized(const Value* value);   // false for null

// The arguments of a quantize or dequantize node.
struct Quantization {
  Value* input = nullptr;
  Argument scale;  // a double, or the Value of a scale tensor
  // an int64_t, the Value of a tensor, or None (per channel: 0)
  Argument zero_point;
  bool is_per_channel = false;
  int64_t axis = -1;  // per channel only
  int64_t quant_min = 0;
  int64_t quant_max = 0;
  DType dtype = DType::kInt8;
  std::optional<DType> out_dtype;  // dequantize only
  double scale_number() const { return *scale.find<double>(); }
  bool has_numbers() const {
    return scale.find<double>() != nullptr && zero_point.find<int64_t>() != nullptr;
  }
};
// Nothing for other nodes and for those whose range is not a literal (overload tensor2).
std::optional<Quantization> find_quantization(const Node* node);

// The choose_qparams node of a dynamic chain choose_qparams -> quantize -> dequantize; null when
// the dequantize does not belong to one.
Node* find_choose_qparams(const Node* dequantize);

// The meta with another dtype and without gradients; nothing for nothing.
std::optional<TensorMeta> with_dtype(std::optional<TensorMeta> meta, DType dtype);

// Copies nn_module_stack, stack_trace and quantization_tag, as far as `metadata` has them.
void port_metadata(Node& to, const std::map<std::string, std::string>& metadata);

// An observer node: returns its argument "input" (a Value) and lets the observer of "group" (an
// int, index into ObservedGraph::observers) see it.
inline constexpr std::string_view kObserveTarget = "octet.observe.default";

bool is_observer_node(const Node* node);  // false for null
// All observer nodes in graph order, then those of each body of control flow; and the group of one.
std::vector<Node*> observer_nodes(const Graph& graph);
int group_of(const Node& observer_node);

// The value before the observer nodes that produced `value`; null for null.
Value* through_observers(Value* value);
const Value* through_observers(const Value* value);
// The value that an observer node observes, before other observer nodes.
Value* observed_value(const Node& observer_node);

// Adds an observer node on `input` before `before` (null: at the end).
Node* insert_observer_node(Graph& graph, Value* input, int group, std::string name, Node* before);

}  // namespace octet

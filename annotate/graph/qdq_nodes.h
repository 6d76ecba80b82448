// Reading quantize and dequantize nodes of quantized_decomposed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// quantize_per_tensor, quantize_per_channel in any overload; their dequantize twins.
bool is_quantize(const Node* node);    // false for null
bool is_dequantize(const Node* node);  // false for null
// Any dequantize op, those per token, per group and of torchao too; and whether one made the value.
bool is_any_dequantize(const Node* node);  // false for null
bool is_dequantized(const Value* value);   // false for null

// The arguments of one such node.
struct Quantization {
  Value* input = nullptr;
  Argument scale;  // a double, or the Value of a scale tensor
  // an int64_t, the Value of a tensor, or None (per channel, where it means 0)
  Argument zero_point;
  bool is_per_channel = false;
  int64_t axis = -1;  // of per channel
  int64_t quant_min = 0;
  int64_t quant_max = 0;
  DType dtype = DType::kInt8;
  std::optional<DType> out_dtype;  // of dequantize
  double scale_number() const { return *scale.find<double>(); }
  bool has_numbers() const {
    return scale.find<double>() != nullptr && zero_point.find<int64_t>() != nullptr;
  }
};
// Nothing for other nodes and for those whose range is no literal (overload tensor2).
std::optional<Quantization> find_quantization(const Node* node);

// Whether the dequantize belongs to a dynamic chain: choose_qparams -> quantize -> dequantize.
// Returns choose_qparams or null.
Node* find_choose_qparams(const Node* dequantize);

// Copies the entries nn_module_stack, stack_trace and quantization_tag that `metadata` has.
void port_metadata(Node& to, const std::map<std::string, std::string>& metadata);

// The op that stands where values are observed: octet.observe.default, whose result is its input.

// A node with argument "input" (a Value) and "group" (an int, index into ObservedGraph::observers):
// an observer node.
inline constexpr std::string_view kObserveTarget = "octet.observe.default";

bool is_observer_node(const Node* node);  // false for null
// All observer nodes in graph order, then those of each body of control flow; and the group of
// one.
std::vector<Node*> observer_nodes(const Graph& graph);
int group_of(const Node& observer_node);

// What `value` is when one looks through the observer nodes that made it; null for null.
Value* through_observers(Value* value);
const Value* through_observers(const Value* value);
// The value that an observer node observes, looked at in the same way.
Value* observed_value(const Node& observer_node);

// Adds an observer node on `input` in front of `before` (at the end: null).
Node* insert_observer_node(Graph& graph, Value* input, int group, std::string name, Node* before);

}  // namespace octet

#include "annotate/graph/float_ops.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "annotate/graph/constant_subgraph.h"

namespace octet {
namespace {

constexpr std::string_view kDequantizeOps[] = {
    "quantized_decomposed.dequantize_per_tensor",
    "quantized_decomposed.dequantize_per_channel",
    "quantized_decomposed.dequantize_per_token",
    "quantized_decomposed.dequantize_per_channel_group",
    "torchao.dequantize_affine",
};

// Ops that move, view or make data and compute nothing on it.
constexpr std::string_view kMovingOps[] = {
    "aten.view",
    "aten._unsafe_view",
    "aten.reshape",
    "aten.flatten",
    "aten.unflatten",
    "aten.permute",
    "aten.transpose",
    "aten.t",
    "aten.numpy_T",
    "aten.contiguous",
    "aten.clone",
    "aten.detach",
    "aten.alias",
    "aten.lift_fresh_copy",
    "aten.slice",
    "aten.select",
    "aten.split",
    "aten.split_with_sizes",
    "aten.chunk",
    "aten.unbind",
    "aten.squeeze",
    "aten.unsqueeze",
    "aten.expand",
    "aten.expand_as",
    "aten.cat",
    "aten.stack",
    "aten.copy",
    "aten.to",
    "aten._to_copy",
    "aten.type_as",
    "aten.dropout",
    "aten.feature_dropout",
    "aten.alpha_dropout",
    "aten.pad",
    "aten.constant_pad_nd",
    "aten.gather",
    "aten.index",
    "aten.index_select",
    "aten.masked_fill",
    "aten.where",
    "aten.repeat",
    "aten.flip",
    "aten.roll",
    "aten.pixel_shuffle",
    "aten.pixel_unshuffle",
    "aten.channel_shuffle",
    "aten.embedding",
    "aten.zeros",
    "aten.ones",
    "aten.full",
    "aten.zeros_like",
    "aten.ones_like",
    "aten.full_like",
    "aten.empty",
    "aten.arange",
    "aten.narrow",
    "aten.movedim",
    "aten.triu",
    "aten.tril",
    "aten.scatter",
    "aten.index_put",
    "aten.slice_copy",
    "aten.select_copy",
    "aten.view_copy",
    "aten.permute_copy",
    "aten.squeeze_copy",
    "aten.unsqueeze_copy",
    "aten.expand_copy",
    "aten.scalar_tensor",
    "aten.new_zeros",
    "aten.new_ones",
    "aten.new_full",
    "aten.fill",
    "aten.identity",
};

template <size_t N>
bool is_any(const Node& node, const std::string_view (&ops)[N]) {
  return std::any_of(std::begin(ops), std::end(ops),
                     [&](std::string_view op) { return node.is(op); });
}

bool is_float_tensor(const Value* value) {
  return value->kind() == ValueKind::kTensor && value->meta &&
         is_floating_point(value->meta->dtype);
}

bool comes_from_dequantize(const Value* value) {
  return value->producer() != nullptr && is_any(*value->producer(), kDequantizeOps);
}

}  // namespace

bool computes_on_floats(const Node& node) {
  if (!node.target().starts_with("aten.") || is_any(node, kMovingOps)) return false;
  const std::vector<Value*> inputs = node.inputs();
  const std::vector<Value*> outputs = node.outputs();
  return std::any_of(inputs.begin(), inputs.end(), is_float_tensor) &&
         std::any_of(outputs.begin(), outputs.end(), is_float_tensor);
}

std::vector<const Node*> find_float_ops(const Graph& graph) {
  const std::unordered_set<const Value*> constants = find_constant_values(graph);
  std::unordered_set<const Node*> quantized;  // so far; nodes come in order
  // Dequantized, constant, made of nothing (zeros), or the result of a quantized op that this one
  // alone takes (the convolution before a relu).
  const auto fits = [&](const Value* input) {
    if (!is_float_tensor(input) || constants.contains(input) || comes_from_dequantize(input))
      return true;
    if (input->producer() != nullptr && input->producer()->inputs().empty()) return true;
    return input->producer() != nullptr && input->has_one_user() &&
           quantized.contains(input->producer());
  };
  std::vector<const Node*> result;
  for (const Node* node : graph.nodes()) {
    if (!computes_on_floats(*node)) continue;
    const std::vector<Value*> inputs = node->inputs();
    if (std::all_of(inputs.begin(), inputs.end(), fits)) {
      quantized.insert(node);
    } else {
      result.push_back(node);
    }
  }
  return result;
}

}  // namespace octet

// ATen ops that multiply with weights: which argument is what, and which dimensions of the weight
// are channels. A scale per channel lies along out_axis.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/graph/graph.h"

namespace octet {

enum class WeightForm {
  kConv,            // weight: [out, in / groups, kernel...]
  kTransposedConv,  // weight: [in, out / groups, kernel...]
  kConvolution,     // aten.convolution: one of the two, by its argument `transposed`
  kLinear,          // weight: [out, in]
  kColumns,         // weight: [in, out]
  kProduct,         // of two tensors, each of which may be an activation
  kTable,           // weight: [rows, width], picked by indices
};

struct WeightedOp {
  std::string_view op;  // as for Node::is
  WeightForm form;
  std::string_view x, weight, bias;  // names of arguments; bias: "" where the op has none
  int out_axis, in_axis;             // of the weight; -1: none
};

std::span<const WeightedOp> weighted_ops();
// Null for other ops.
const WeightedOp* find_weighted_op(const Node& node);
// The op when it is conv1d to 3d, conv_transpose1d to 3d or linear, into which a batch norm folds.
const WeightedOp* find_conv_or_linear(const Node& node);
// conv_transpose1d to 3d, and aten.convolution that is transposed.
bool is_transposed_conv(const Node& node);
// "{conv1d|conv2d|conv3d}": the ops of a form, for patterns.
std::string pattern_ops(WeightForm form);

}  // namespace octet

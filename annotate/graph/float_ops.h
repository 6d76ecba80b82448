// Which ops of a q/dq graph compute in floats.
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace octet {

// An ATen op that computes a float tensor from float tensors: views, copies and shape arithmetic
// don't count.
bool computes_on_floats(const Node& node);

// The compute ops of a q/dq graph with a float input that is neither dequantized, nor constant, nor
// made of nothing (zeros), nor the result of a quantized op that they alone take. Views, copies and
// shape arithmetic do not count, nor do ops on constants alone.
std::vector<const Node*> find_float_ops(const Graph& graph);

}  // namespace octet

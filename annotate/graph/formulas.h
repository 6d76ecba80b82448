// Formulas that models write op by op, and that are one op to a backend:
//
//   0.5 * x * (1 + tanh(0.797885 * (x + 0.044715 * pow(x, 3))))    GELU by tanh
//   0.5 * x * (1 + erf(x / 1.414214))                              GELU
#pragma once

#include <unordered_set>

#include "core/graph/graph.h"

namespace octet {

// All nodes that are part of one. A step of a formula in 8 bits costs accuracy, and time where
// lowering would have fused it.
std::unordered_set<const Node*> find_formula_nodes(const Graph& graph);

}  // namespace octet

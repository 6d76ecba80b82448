// Finds the ops of a q/dq graph that compute in float, reports them, and finds formulas that should
// stay float as a whole.
#pragma once

#include <unordered_set>

#include "annotate/annotation/annotation.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// Whether the node is an ATen op that computes a float tensor from float tensors. Views, copies and
// shape arithmetic do not count.
bool computes_on_floats(const Node& node);

// The compute ops with a float input that is not dequantized, not constant, not created from
// nothing (zeros), and not the result of a quantized op that only they use. Views, copies, shape
// arithmetic and ops on constants do not count.
std::vector<const Node*> find_float_ops(const Graph& graph);

// Reports each of find_float_ops() that the report does not mention yet, unless one of its inputs
// has a spec (a linear op with quantized weights has a float input because the quantizer wants it
// so). Returns the number of entries added.
int report_float_ops(const Graph& graph, const Annotations& annotations, Report& report);

// All nodes of formulas that models write op by op and that backends run as one op:
//
//   0.5 * x * (1 + tanh(0.797885 * (x + 0.044715 * pow(x, 3))))    GELU by tanh
//   0.5 * x * (1 + erf(x / 1.414214))                              GELU
//
// Quantizing a step of a formula costs accuracy, and time where lowering would have fused it.
std::unordered_set<const Node*> find_formula_nodes(const Graph& graph);

}  // namespace octet

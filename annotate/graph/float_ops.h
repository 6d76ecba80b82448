// Which ops of a q/dq graph compute in floats.
#pragma once

#include <unordered_set>
#include <vector>

#include "annotate/annotation/annotation.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// An ATen op that computes a float tensor from float tensors: views, copies and shape arithmetic
// don't count.
bool computes_on_floats(const Node& node);

// The compute ops of a q/dq graph with a float input that is neither dequantized, nor constant, nor
// made of nothing (zeros), nor the result of a quantized op that they alone take. Views, copies and
// shape arithmetic do not count, nor do ops on constants alone.
std::vector<const Node*> find_float_ops(const Graph& graph);

// What of a program stayed float after convert, and why.

// Adds an entry for each of find_float_ops() (annotate/graph/float_ops.h) that the report does not
// speak of yet and none of whose inputs has a spec (of a linear op with quantized weights the input
// stays float because the quantizer wants it so). Returns the number of entries added.
int report_float_ops(const Graph& graph, const Annotations& annotations, Report& report);

// Formulas that models write op by op, and that are one op to a backend:
//
//   0.5 * x * (1 + tanh(0.797885 * (x + 0.044715 * pow(x, 3))))    GELU by tanh
//   0.5 * x * (1 + erf(x / 1.414214))                              GELU

// All nodes that are part of one. A step of a formula in 8 bits costs accuracy, and time where
// lowering would have fused it.
std::unordered_set<const Node*> find_formula_nodes(const Graph& graph);

}  // namespace octet

// Whether a caller's inputs are the ones that a graph was exported for.
#pragma once

#include <vector>

#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet {

// The inputs that a caller gives: kUserInput and kConstant, in the graph's order.
std::vector<const GraphInput*> caller_inputs(const Graph& graph);

// Throws Error("run", ...) unless `inputs` has one value for each of caller_inputs(graph), equal to
// the literal of each constant; with check_shapes also unless dtype, rank and sizes are the
// exported ones, symbolic sizes within their range and equal where the symbol is.
void check_inputs(const Graph& graph, const std::vector<c10::IValue>& inputs, bool check_shapes);

}  // namespace octet

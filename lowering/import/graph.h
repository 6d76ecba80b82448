// Imports a q/dq graph as a Program, op by op. It fuses nothing: quantize and dequantize stay ops.
// Callers first fold constants and the sizes that they decide (fold_constants_and_sizes).
#pragma once

#include <string>

#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet {

// Views and copies become data movement or vanish; constants keep their storage when contiguous;
// buffers that the graph writes become states. The graph needs recorded metadata. Throws one
// Error("lower", node, ...) that lists all nodes that it cannot express: sizes that nothing
// decides, writes into inputs, in-place ops that also change other values in a way that cannot be
// expressed, and ops without a form in ops.def.
//
// keep_unknown: a node without an import row becomes an op of kind "aten" that holds the whole node
// (backends/torch), if its inputs and outputs are tensors.
Program import_graph(const Graph& graph, bool keep_unknown = false);

// Whether an import row or a registered custom kernel exists for the target.
bool is_imported(const std::string& target);

// Folds data-dependent sizes that constants decide: how many elements a constant mask selects, how
// often constant counts repeat a row, a constant's item(). Runs fold_input_free(kConstants),
// replaces reads of constant masks and counts by reads of constant indices, and substitutes the
// symbols whose values follow everywhere in the graph. Returns the number of nodes folded.
int fold_constants_and_sizes(Graph& graph);

}  // namespace octet

// Calibrates programs with a part that cannot run on this machine: the program is cut around the
// part, and tensors recorded elsewhere replace its outputs.
//
//   %x ─▶ conv2d ─▶ [ my_ns.gate ] ─▶ linear   becomes   %x ─▶ conv2d    %gate ─▶ linear
#pragma once

#include "annotate/observed/observed_graph.h"
#include "core/graph/graph.h"

namespace octet {

// The outputs of the recorded islands in program order: what must be recorded for each batch.
// Throws Error("calibrate", ...) when a recorded island is in a body of control flow.
std::vector<const Value*> recorded_values(const ObservedGraph& observed);

// A copy of the program without the recorded islands. Their outputs become user inputs after the
// existing ones. The copy shares its observers with the original. Throws as recorded_values() does.
ObservedGraph cut_recorded_parts(const ObservedGraph& observed);

// Throws Error("calibrate", "%node", ...), with ways to proceed, for the first op of the graph or
// its bodies that has no kernel in this process. `known`: targets that can run anyway.
void check_ops_can_run(const Graph& graph, const std::vector<std::string>& known);

}  // namespace octet

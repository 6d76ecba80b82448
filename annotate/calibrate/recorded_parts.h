// Calibration of a program a part of which cannot run here: the program is cut around it, and
// tensors that were recorded elsewhere stand for its outputs.
//
//   %x ─▶ conv2d ─▶ [ my_ns.gate ] ─▶ linear   becomes   %x ─▶ conv2d    %gate ─▶ linear
#pragma once

#include <vector>

#include "annotate/observed/observed_graph.h"
#include "core/graph/graph.h"

namespace octet {

// The outputs of the recorded islands, in the order in which the program makes them: what is to be
// recorded of each batch. Throws Error("calibrate", ...) when a recorded island is in a body of
// control flow.
std::vector<const Value*> recorded_values(const ObservedGraph& observed);

// A copy of the program without the recorded islands. Their outputs are user inputs, behind the
// others. It has the same observers, so what it learns the original knows. Throws likewise.
ObservedGraph cut_recorded_parts(const ObservedGraph& observed);

// Throws Error("calibrate", "%node", ...) for the first op of the graph or a body in it that has no
// kernel in this process, with the ways out. `known`: targets that can be run all the same.
void check_ops_can_run(const Graph& graph, const std::vector<std::string>& known);

}  // namespace octet

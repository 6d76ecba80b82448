// Lists the nodes of a q/dq program for reports, with the keys of tools/page/page.schema.json.
#pragma once

#include <nlohmann/json.hpp>

#include "core/graph/graph.h"

namespace octet {

// Lists the nodes of the float program: its inputs (target "placeholder"), its ops without those
// that only convert tensors to integers and back, and one node "output" that takes all results.
// Each has `name`, `target`, `status` ("input", "output"; "other" for ops) and `inputs`, the names
// of the nodes that it reads (without constants). Ops have `module`, `module_type` (both "" outside
// of modules), `outputs_program` and, if known, `stack_trace`. Inputs and ops have `dtype` and
// `shape` of their first result, if known.
nlohmann::ordered_json graph_nodes(const Graph& graph);

}  // namespace octet

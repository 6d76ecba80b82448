// A q/dq program's nodes as reports list them, with the keys of tools/page/page.schema.json.
#pragma once

#include <nlohmann/json.hpp>

#include "core/graph/graph.h"

namespace octet {

// The program as the float program has it: its inputs (target "placeholder"), its ops without
// those that only carry tensors from floats to integers and back, and at the end one node "output"
// that takes all results. Each has `name`, `target`, `status` ("input", "output"; "other" for ops)
// and `inputs`, the names of the nodes that it reads (constants are none); ops have `module`,
// `module_type` (both "" outside of modules), `outputs_program` and, where it is known,
// `stack_trace`; inputs and ops have `dtype` and `shape` of their first result where these are
// known.
nlohmann::ordered_json graph_nodes(const Graph& graph);

}  // namespace octet

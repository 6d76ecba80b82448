// A graph as people and scripts look at it: FX's tabular form, and JSON.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "core/graph/graph.h"

namespace octet {

// Columns opcode, name, target, args, kwargs, as torch.fx.Graph.print_tabular gives them, and the
// result's type.
std::string to_table(const Graph& graph);

// {"nodes": [{"name", "target", "args", "dtype", "shape", "module"}...], "inputs", "outputs",
// "quantized_ops", "float_ops"}. args: by the name of the op's schema, values as "%name". The last
// two count the ops that read dequantized values, and the compute ops that do not.
nlohmann::ordered_json to_json(const Graph& graph);

}  // namespace octet

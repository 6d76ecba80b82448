// Prints a graph as FX's table and as JSON.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "core/graph/graph.h"

namespace octet {

// The columns of torch.fx.Graph.print_tabular (opcode, name, target, args, kwargs), and the type of
// the result.
std::string to_table(const Graph& graph);

// {"nodes": [{"name", "target", "args", "dtype", "shape", "module"}...], "inputs", "outputs",
// "quantized_ops", "float_ops"}. args: by the argument's name in the op's schema, values as
// "%name". The last two are the numbers of ops that read dequantized values, and of other compute
// ops.
nlohmann::ordered_json to_json(const Graph& graph);

}  // namespace octet

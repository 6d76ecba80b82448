// The higher-order ops: those that call a subgraph or another op.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet {

// Runs a subgraph on its inputs and gives its outputs.
using RunSubgraph =
    std::function<std::vector<c10::IValue>(const Graph& body, std::vector<c10::IValue> inputs)>;
// arguments: the resolved node.arguments(), None where a Subgraph stands. Gives one result for each
// of node.outputs().
using HigherOrderOp = std::vector<c10::IValue> (*)(const Node& node,
                                                   const std::vector<c10::IValue>& arguments,
                                                   const RunSubgraph& run);

// cond, while_loop, scan, map_impl, invoke_subgraph, wrap_with_set_grad_enabled,
// wrap_with_autocast, out_dtype. Null for others.
HigherOrderOp find_higher_order_op(std::string_view target);

}  // namespace octet

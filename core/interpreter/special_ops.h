// Runs ops that LibTorch's dispatcher lacks: higher-order ops, which call a subgraph or another op,
// and Python functions on numbers.
#pragma once

#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet {

// Runs a subgraph on inputs and returns its outputs.
using RunSubgraph =
    std::function<std::vector<c10::IValue>(const Graph& body, std::vector<c10::IValue> inputs)>;
// arguments: the resolved node.arguments(), None for a Subgraph. Returns one value per
// node.outputs().
using HigherOrderOp = std::vector<c10::IValue> (*)(const Node& node,
                                                   const std::vector<c10::IValue>& arguments,
                                                   const RunSubgraph& run);

// cond, while_loop, scan, map_impl, invoke_subgraph, wrap_with_set_grad_enabled,
// wrap_with_autocast, out_dtype. Null for others.
HigherOrderOp find_higher_order_op(std::string_view target);

// A Python function on numbers that torch.export writes into graphs (_operator.add, math.trunc,
// torch.sym_max, ...). Takes ints, floats and bools in the order of the Python function and returns
// what Python returns: int // int rounds toward minus infinity, int / int is a float. Throws
// Error("run", subject, ...) for a wrong number or kind of arguments and on division by zero.
using PythonOp = c10::IValue (*)(const std::vector<c10::IValue>& arguments,
                                 const std::string& subject);

// Null for anything that is not such a function.
PythonOp find_python_op(std::string_view target);

}  // namespace octet

// A graph in the form that a program of it has.
#pragma once

#include <memory>

#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet {

// A copy in which batch norms that the program has no op for are folded into the convolutions and
// linears before them, as lower() does: the values that are left stand for the same tensors.
std::unique_ptr<Graph> fold_as_lowered(const Graph& graph, const Program& program);

}  // namespace octet

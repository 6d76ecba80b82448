// Replaces ops that later stages do not know by the ops that they are composed of.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Replaces each node whose target is not known by the ops that LibTorch's kernel for it calls, if
// all of these are known (composite_trace.h). Nodes with values of symbolic sizes, unknown shape or
// complex dtype are kept. Returns the number of nodes replaced.
int decompose(Graph& graph, const std::function<bool(const std::string& target)>& is_known);

}  // namespace octet

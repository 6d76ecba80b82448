// Ops that nobody downstream knows become those that they are composed of.
#pragma once

#include <functional>
#include <string>

#include "core/graph/graph.h"

namespace octet {

// Replaces each node whose target is not known by the ops that LibTorch's own kernel for it calls,
// where these are all known (composite_trace.h). Values of open sizes, of unknown shape or of
// complex numbers leave a node as it is. Returns the number of nodes replaced.
int decompose(Graph& graph, const std::function<bool(const std::string& target)>& is_known);

}  // namespace octet

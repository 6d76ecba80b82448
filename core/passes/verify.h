// The invariants of a Graph, checked after each pass and after reading.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Throws Error("verify", "%node (target)", ...) on the first broken invariant: names are unique;
// each value is defined before its use and knows its users; arguments are known to the op's schema
// and required ones are present (ops outside of the dispatcher are not looked up); outputs belong
// to the graph; each parameter, buffer and tensor constant input has a constant of the dtype and
// shape of its meta. Subgraphs likewise.
void verify(const Graph& graph);

}  // namespace octet

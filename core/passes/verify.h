// Checks the invariants of a Graph, after each pass and after reading.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Throws Error("verify", "%node (target)", ...) for the first broken invariant: names are unique;
// each value is defined before its use and knows its users; arguments are in the op's schema and
// required ones are present (for ops of the dispatcher); outputs belong to the graph; each
// parameter, buffer and tensor constant input has a constant with the dtype and shape of its meta.
// Checks subgraphs too.
void verify(const Graph& graph);

}  // namespace octet

// Puts the nodes of bodies that always run, once and as they are, in the place of their calls.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Calls of invoke_subgraph, and of wrap_with_set_grad_enabled (a part under torch.no_grad()), those
// within other such bodies included. A call with an operand that is no value stays. Returns the
// number of calls.
int inline_bodies(Graph& graph);

}  // namespace octet

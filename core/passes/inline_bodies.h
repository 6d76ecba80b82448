// Puts the bodies of calls that do nothing but run them in the calls' place.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// torch.no_grad() within a model gives higher_order.wrap_with_set_grad_enabled, autocast switched
// off higher_order.wrap_with_autocast, a nested compile region higher_order.invoke_subgraph: their
// nodes are copied before the call, whose results they then give. Left alone: autocast switched on,
// and calls with literals for operands. Returns the number of calls inlined.
int inline_bodies(Graph& graph);

}  // namespace octet

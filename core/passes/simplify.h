// Removes what cannot change the result.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Whether a call may do more than compute its results: it writes to an argument, asserts, has no
// results, draws random numbers, or is unknown.
bool has_side_effects(const Node& node);

enum class DeadInputs { kKeep, kRemove };

// Erases nodes without users, consumers first, but those with side effects. kRemove also drops
// parameters, buffers and tensor constants that nothing uses, with their data, and data that no
// input names. Returns the number of nodes and inputs removed.
int remove_dead(Graph& graph, DeadInputs inputs = DeadInputs::kKeep);

// Puts the bodies of calls that do nothing but run them in the calls' place.

// torch.no_grad() within a model gives higher_order.wrap_with_set_grad_enabled, autocast switched
// off higher_order.wrap_with_autocast, a nested compile region higher_order.invoke_subgraph: their
// nodes are copied before the call, whose results they then give. Left alone: autocast switched on,
// and calls with literals for operands. Returns the number of calls inlined.
int inline_bodies(Graph& graph);

// Moves zero padding into the convolution that follows it:
//   conv2d(pad(x, [l, r, t, b]), w, b, padding=[p, q])  ->  conv2d(x, w, b, padding=[p + t, q + l])
//       when l == r and t == b

// Exact in float and in integers (the padded zeros are representable), and leaves one tensor less
// to observe. conv1d/2d/3d with int padding; aten.pad (constant mode) and aten.constant_pad_nd with
// value 0, not negative, symmetric, over spatial dimensions only, and seen by that convolution
// alone. Returns the number of folds.
int fold_pad(Graph& graph);

}  // namespace octet

// Tells which values share memory and which of them a node writes to.
#pragma once

#include <unordered_set>

#include "core/graph/graph.h"

namespace octet {

// Whether the node is an ATen op that writes only to its first input, by its name (relu_).
bool is_in_place(const Node& node);

// The inputs that the results of `node` may share memory with (views, in-place ops, dropout in
// evaluation mode); all of them for ops unknown to the dispatcher.
std::vector<const Value*> aliased_inputs(const Node& node);

// The values whose memory these may share, traced back to graph inputs and results of ops that
// allocate.
std::unordered_set<const Value*> memory_roots(std::vector<const Value*> values);

// The values that `node` writes to in place, including running statistics of a norm in training
// mode, but not detach_, which does not change the data.
std::vector<const Value*> written_values(const Node& node);

// Parameters, buffers and tensor constants that an op may write to or an output updates: what
// differs from run to run.
std::unordered_set<const Value*> written_constants(const Graph& graph);

}  // namespace octet

// Which values share memory, and which of them a node writes to.
#pragma once

#include <unordered_set>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// An ATen op that writes into its first input, and into nothing else, as its name says (relu_).
bool is_in_place(const Node& node);

// The inputs whose memory the results of `node` may be (views, in-place ops, dropout in evaluation
// mode); all of them when the op is unknown to the dispatcher.
std::vector<const Value*> aliased_inputs(const Node& node);

// The values whose memory these may be, as far back as it goes: graph inputs and results of ops
// that make new tensors.
std::unordered_set<const Value*> memory_roots(std::vector<const Value*> values);

// The values that `node` writes to in place, running statistics of a norm in training mode
// included, detach_ excepted (it leaves the data alone).
std::vector<const Value*> written_values(const Node& node);

// Parameters, buffers and tensor constants of the graph that an op may write to, or that an output
// gives a new value: what differs from run to run.
std::unordered_set<const Value*> written_constants(const Graph& graph);

}  // namespace octet

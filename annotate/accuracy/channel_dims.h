// Where the channels of a tensor are after ops that only move or reshape them, and before.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// The dimensions that hold the channels, in the order in which a channel's number counts through
// them: {1} of NCHW; {1, 3} of [batch, head, position, channel of head] for head * size + channel.
using ChannelDims = std::vector<int64_t>;

// Of a reshape between two shapes: the dimensions of `to` that hold the same channels in the same
// order. Nothing when they are mixed with others.
std::optional<ChannelDims> dims_after_reshape(const std::vector<int64_t>& from,
                                              const std::vector<int64_t>& to,
                                              const ChannelDims& dims);

// Of a layout op (view, reshape, flatten, unflatten, squeeze, unsqueeze, transpose, permute)
// between its input and its output, from one side to the other. Nothing when the node is no such
// op, a size of a reshape is symbolic, or the channels are mixed with others.
enum class Direction { kForward, kBackward };
std::optional<ChannelDims> dims_through_layout(const Node& node, const ChannelDims& dims,
                                               Direction direction);

}  // namespace octet

// Gives the channels of a space a factor each, and takes the weights apart by channel for that.
#pragma once

#include <ATen/core/Tensor.h>

#include "annotate/accuracy/channel_space.h"

namespace octet {

// Divides what the makers give by factors[channel] and multiplies what the takers multiply with.
// factors: float [channels], finite and > 0. Weights that others use too are copied. Observers of
// the weights must not have seen data yet.
void scale_channels(Graph& graph, const ChannelSpace& space, const at::Tensor& factors);

// The weight of a taker by input channel: double [groups, out / groups, in / groups, kernel
// positions]; of a maker: double [channels, the rest].
at::Tensor taker_weight(const Graph& graph, const ScaledOp& taker);
at::Tensor maker_weight(const Graph& graph, const ScaledOp& maker);
// What the op reads as its weight, in front of which an observer node may stand.
Value* weight_operand(const ScaledOp& scaled);

// The nearest power of two of each, by ratio: scaling by it and back changes no float, whatever is
// done in between.
at::Tensor round_to_powers_of_two(const at::Tensor& factors);

}  // namespace octet

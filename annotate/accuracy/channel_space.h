// Finds sets of values whose channels can each be scaled by a factor without changing what the
// program computes, and scales them: the weights of the ops that produce the channels are divided
// by the factors, the weights of the ops that consume them are multiplied, and the ops in between
// commute with positive scaling.
//
//   conv2d -> relu -> conv2d              linear (values) -> attention -> linear
//   conv2d -> add -> conv2d               layer_norm -> linear, linear, linear
//             ^- conv2d
//   linear (up) -> mul -> linear          rms_norm -> linear, linear, linear
//                   ^- silu
//
//   linear (values) -> copy into a cache -> expand (heads that share values) -> attention -> linear
//
// Used by equalize_layers() below and by smoothing (smooth.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "core/ops/weighted_ops.h"

namespace octet {

// The dimensions of a tensor that hold the channels, outermost first: {1} for NCHW; {1, 3} for
// [batch, head, position, channel of head], where channel = head * size + channel of head.
using ChannelDims = std::vector<int64_t>;

// The dimensions of the shape `to` that hold, after a reshape from the shape `from`, the channels
// that `dims` hold before. Nothing when the reshape mixes channels with other dimensions.
std::optional<ChannelDims> dims_after_reshape(const std::vector<int64_t>& from,
                                              const std::vector<int64_t>& to,
                                              const ChannelDims& dims);

// Follows channels through a layout op (view, reshape, flatten, unflatten, squeeze, unsqueeze,
// transpose, permute), from its input to its output or back. Nothing for other ops, for reshapes
// that combine symbolic sizes with others, and when channels are mixed with other dimensions.
enum class Direction { kForward, kBackward };
std::optional<ChannelDims> dims_through_layout(const Node& node, const ChannelDims& dims,
                                               Direction direction);

// A convolution (its channels are in the second dimension), linear, addmm or mm (in the last), or
// an op without in_axis: layer_norm, rms_norm or a product with a constant vector, with which
// exported RMS norms end (in the last). Null for other ops.
const WeightedOp* find_scaled_form(const Node& node);

// Channels of which each block of `inner` occurs `times` times in a row, as heads of values that
// several heads of queries share: [blocks, times, inner].
struct ChannelRepeats {
  int64_t times = 1, inner = 1;

  at::Tensor repeat(const at::Tensor& factors) const;   // [channels] to [channels * times]
  at::Tensor greatest(const at::Tensor& values) const;  // [channels * times] to [channels]
  bool operator==(const ChannelRepeats&) const = default;
};

// An op whose weights absorb the factors: a convolution (1-d to 3-d), linear, addmm or mm with
// constant weights; as a maker also a norm or a product with a constant vector.
struct ScaledOp {
  Node* op = nullptr;
  int64_t axis = 0;             // dimension of the weight that holds the channels of this space
  int64_t groups = 1;           // takers: convolution groups
  Value* input = nullptr;       // takers: what they read
  ChannelRepeats repeats = {};  // takers: of the input
};

// A value of the space and the dimensions that hold its channels.
struct ChannelPlace {
  Value* value = nullptr;
  ChannelDims dims;
  ChannelRepeats repeats = {};
};

struct ChannelSpace {
  int64_t channels = 0;
  std::vector<ScaledOp> makers;  // at least one
  std::vector<ScaledOp> takers;  // at least one
  std::vector<ChannelPlace> places;

  const ChannelDims& dims_of(const Value* value) const;  // of one of `places`
};

// Ordered by their first maker. Observer nodes are skipped over. A value that is also read or
// produced by anything else (a program output, a user input, an op that is not linear in it)
// belongs to no space. Rows pass through a cache: a buffer of zeros into which one op copies rows
// and which nothing else uses. Bodies of control flow are not searched.
std::vector<ChannelSpace> find_channel_spaces(Graph& graph);

// Whether the filter accepts every maker and taker.
bool all_ops_are(const ChannelSpace& space, const NodeFilter& filter);

// Divides the outputs of the makers by factors[channel] and multiplies the takers' weights by them.
// factors: float [channels], finite and > 0. Weights with other users are copied first. REQUIRES:
// the observers of the weights have not seen data.
void scale_channels(Graph& graph, const ChannelSpace& space, const at::Tensor& factors);

// The weight of a taker by input channel, double [groups, out / groups, in / groups, kernel
// positions]; of a maker, double [channels, rest].
at::Tensor taker_weight(const Graph& graph, const ScaledOp& taker);
at::Tensor maker_weight(const Graph& graph, const ScaledOp& maker);
// What the op reads as its weight; an observer node may be in between.
Value* weight_operand(const ScaledOp& scaled);

// The nearest power of two of each factor, by ratio. Scaling by powers of two and back changes no
// bit of a float.
at::Tensor round_to_powers_of_two(const at::Tensor& factors);

// Cross-layer equalization (Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization
// and Bias Correction"): scales channels so that the weights that produce a channel and those that
// consume it have equal ranges. Needs no data. Factors are powers of two, so the float program
// gives the same bits.
//
//   conv2d -> relu -> conv2d       |row of the first| = |column of the second|, within a factor of
//                                  sqrt(2)
//
// For folded float graphs and for observed graphs that are not calibrated yet. Norms are skipped;
// clamps (relu6, hardtanh) end a chain. Repeats until nothing changes, as depthwise
// convolutions belong to two chains, at most 64 times. Returns the number of changes to spaces; a
// second call returns 0.

int equalize_layers(Graph& graph, const NodeFilter& applies = {});

}  // namespace octet

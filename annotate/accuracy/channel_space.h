// Where the channels of a tensor are after ops that only move or reshape them, and before.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

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

// The ops whose weights can take factors of channels (channel_space.h).

enum class ChannelPosition { kSecond, kLast };

struct OpForm {
  std::string_view op;
  std::string_view input, weight, bias;
  int64_t output_axis;  // of the weight
  int64_t input_axis;   // of the weight; -1: it takes no channels
  ChannelPosition position;
};

const OpForm* find_op_form(const Node& node);  // null for other ops

// Sets of values whose channels can be given a factor each without changing what the program
// computes: the ops that make the channels divide their weights by it, the ops that take them
// multiply, and what stands between hands positive factors on.
//
//   conv2d -> relu -> conv2d              linear (values) -> attention -> linear
//   conv2d -> add -> conv2d               layer_norm -> linear, linear, linear
//             ^- conv2d

// A convolution (1-d to 3-d), linear, addmm, mm or, as a maker, layer_norm with constant weights.
struct ScaledOp {
  Node* op = nullptr;
  int64_t axis = 0;        // of the weight: its channels of this space
  int64_t groups = 1;      // of takers: convolution groups
  Value* input = nullptr;  // of takers: what they read
};

// A value of the space.
struct ChannelPlace {
  Value* value = nullptr;
  ChannelDims dims;
};

// A clamp at 0 and at `limit` within the space: the factors must keep the values below the limit
// (see ClampChoice).
struct ChannelClamp {
  Value* input = nullptr;
  double limit = 0;
};

struct ChannelSpace {
  int64_t channels = 0;
  std::vector<ScaledOp> makers;  // at least one
  std::vector<ScaledOp> takers;  // at least one
  std::vector<ChannelPlace> places;
  std::vector<ChannelClamp> clamps;

  const ChannelDims& dims_of(const Value* value) const;  // of one of the places
};

// kRefuse: a clamp (relu6, hardtanh, clamp) ends the space, so that any positive factors keep the
// program's meaning exactly. kAllow: clamps from 0 are part of the space; the meaning stays for
// values that neither the old nor the new clamp cuts.
enum class ClampChoice { kRefuse, kAllow };

// In graph order of the first maker. Observer nodes are looked through. A value that anything
// else reads or makes (a program output, a user input, an op that is not linear in it) has no
// space. Bodies of control flow are left alone.
std::vector<ChannelSpace> find_channel_spaces(Graph& graph,
                                              ClampChoice clamps = ClampChoice::kRefuse);

// Whether the filter chooses every maker and taker.
bool all_ops_are(const ChannelSpace& space, const NodeFilter& filter);

// Gives the channels of a space a factor each, and takes the weights apart by channel for that.

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

// Cross-layer equalization (Nagel et al. 2019): channels get factors so that the weights that make
// a channel and those that take it reach equally far. No data is needed, and the float program
// gives the same bits: the factors are powers of two.
//
//   conv2d -> relu -> conv2d       |row of the first| = |column of the second|, each within a
//       factor of sqrt(2)

// Works on folded float graphs and on observed ones that are not calibrated yet. Layer norms are
// left alone. Clamps (relu6, hardtanh) end a chain. Repeats until nothing changes (depthwise
// convolutions belong to two chains), at most 64 times. Returns the number of changes to spaces; 0
// when run again.
int equalize_layers(Graph& graph, const NodeFilter& applies = {});

}  // namespace octet

// Sets of values whose channels can be given a factor each without changing what the program
// computes: the ops that make the channels divide their weights by it, the ops that take them
// multiply, and what stands between hands positive factors on.
//
//   conv2d -> relu -> conv2d              linear (values) -> attention -> linear
//   conv2d -> add -> conv2d               layer_norm -> linear, linear, linear
//             ^- conv2d
#pragma once

#include <cstdint>
#include <vector>

#include "annotate/accuracy/channel_dims.h"
#include "core/graph/graph.h"

namespace octet {

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

}  // namespace octet

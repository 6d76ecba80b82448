// Records which nodes of the exported program a node replaces, in handles that passes carry along
// and .pt2 files keep as metadata. `octet compare` finds each op's float twin by them.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// The key in Node::metadata. PyTorch's reader of .pt2 files ignores unknown keys.
inline constexpr const char* kOriginKey = "octet_origin";
// The key of channel_factors_of().
inline constexpr const char* kChannelFactorsKey = "octet_channel_factors";

// Makes each node without an origin its own origin. Bodies of control flow are skipped.
void set_origins(Graph& graph);

// The names in program order; the last one is the node whose value this node gives. Without a
// handle the node's own name; empty for a node that gives no value of the exported program.
std::vector<std::string> origins_of(const Node& node);

// Call when `after` is folded into `node`, which then gives the value of `after`.
void absorb_after(Node& node, const Node& after);
// Call when `before` is folded into `node`, whose value stays the same.
void absorb_before(Node& node, const Node& before);
// Call when the node's value no longer is a value of the exported program.
void forget_origin(Node& node);

// Factors by which a value differs from its twin: value = twin / factors. They are powers of two,
// as equalization and smoothing choose them, and broadcast to the value's shape.
struct ChannelFactors {
  std::vector<int64_t> shape;       // as many dimensions as the value; 1 where constant
  std::vector<int> exponents = {};  // row-major; factor = 2^exponent
  bool operator==(const ChannelFactors&) const = default;
};

// The factors in the node's metadata; empty shape: none.
ChannelFactors channel_factors_of(const Node& node);
// Multiplies the node's factors. Does not store factors of 1.
void multiply_channel_factors(Node& node, const ChannelFactors& factors);

}  // namespace octet

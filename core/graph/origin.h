// Which nodes of the exported program a node stands for: handles that passes hand on, that a .pt2
// file keeps as metadata, and by which `octet compare` finds each op's float twin.
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// The key in Node::metadata. PyTorch's reader of .pt2 files passes over keys that it does not know.
inline constexpr const char* kOriginKey = "octet_origin";
// The same, for the factors of channel_factors_of().
inline constexpr const char* kChannelFactorsKey = "octet_channel_factors";

// Each node that has no origin yet becomes its own. Bodies of control flow are left alone.
void set_origins(Graph& graph);

// In the order of the program; the last one is the node whose value this one gives. Without handle
// the node's own name; empty for a node that gives no value of the exported program.
std::vector<std::string> origins_of(const Node& node);

// `behind` is folded into `node`, which from now on gives the other's value.
void absorb_behind(Node& node, const Node& behind);
// `before` is folded into `node`, whose value stays what it was.
void absorb_before(Node& node, const Node& before);
// The node's value is none of the exported program's any more.
void forget_origin(Node& node);

// Factors by which a value differs from its twin's: value = twin / factors. All are powers of two,
// as equalization and smoothing choose them, of a shape that is broadcast to the value's.
struct ChannelFactors {
  std::vector<int64_t> shape;       // as many dimensions as the value; 1 where it does not vary
  std::vector<int> exponents = {};  // row-major; factor = 2^exponent
  bool operator==(const ChannelFactors&) const = default;
};

// Those that the node's metadata keep; empty shape: none.
ChannelFactors channel_factors_of(const Node& node);
// On top of those that it has. Factors of 1 leave nothing behind.
void multiply_channel_factors(Node& node, const ChannelFactors& factors);

}  // namespace octet

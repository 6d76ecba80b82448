// Weights in bins: see Multiply::kPairs in tiles.h. Two bounds are known of x: its greatest byte,
// and the greatest sum of a pair. Activations after a ReLU are small but for few, so that a bound
// on pairs far below twice the greatest byte holds for nearly all; who packs with it takes care of
// the others (excess.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/onednn/bytes/tiles.h"

namespace octet::onednn {

// The steps of one block of channels in the order of their bins.
struct BinnedBlock {
  int32_t bins[kMostBin] = {};  // how many of kMostBin steps, of one less, ...
  // the step whose x each one reads; a step that was split stands here twice
  std::vector<int32_t> order;
  std::vector<int8_t> weights;  // [order.size(), lanes, 4]
};

// What x holds at most. A pair of at most 255 keeps every step whole.
struct ByteBound {
  int byte = 255;
  int pair = 2 * 255;
};

// weights: [steps, lanes, 4].
BinnedBlock make_bins(std::span<const int8_t> weights, int lanes, ByteBound bound);

// What the block costs, in units of what the same steps of kWords cost.
double cost_of(const BinnedBlock& block, int64_t steps);

}  // namespace octet::onednn

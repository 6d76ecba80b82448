// Weights in bins: see Multiply::kPairs in onednn_byte_tiles.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/onednn/onednn_byte_tiles.h"

namespace octet::onednn {

// The steps of one block of channels in the order of their bins.
struct BinnedBlock {
  int32_t bins[kMostBin] = {};  // how many of kMostBin steps, of one less, ...
  std::vector<int32_t> order;   // the step whose x each one reads; a step that was split stands here twice
  std::vector<int8_t> weights;  // [order.size(), lanes, 4]
};

// weights: [steps, lanes, 4]. capacity: the greatest sum of weights of one sign that stays within 16 bits: 32767 / the greatest byte of x; at least 128.
BinnedBlock make_bins(std::span<const int8_t> weights, int lanes, int capacity);

// What the block costs, in units of what the same steps of kWords cost.
double cost_of(const BinnedBlock& block, int64_t steps);

}  // namespace octet::onednn

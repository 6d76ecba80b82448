// Packs weights so that AVX2 and AVX-512 without VNNI can multiply bytes exactly and fast: "bins",
// for Multiply::kPairs of tiles.h.
//
// vpmaddubsw multiplies 32 or 64 bytes at once and adds neighbouring products, x0 * w0 + x1 * w1,
// with x unsigned and w signed. Its result has 16 bits and saturates: 255 * 127 + 255 * 127 does
// not fit. oneDNN 3.2 accepts the wrong results (or wants x below 128). Widening each result to 32
// bits would be exact only if nothing saturated, and costs as much as the multiplication.
//
// A bin is a group of up to four steps whose results can be added in 16 bits, whatever x is; only
// the sum is widened. What the steps of one channel may reach is known from the weights:
//
//   weights     greatest (x = 255 where w > 0)   least (x = 255 where w < 0)
//   100  -50    25500                            -12750
//    20  -40     5100                            -10200    fits beside the first: 30600, -22950
//    20   40    15300                                 0    does not: 25500 + 15300 > 32767
//   100   90    48450: too large alone, so it is split into (38, 90) and (62, 0), two steps that
//               read the same x
//
// Bins are filled greedily, from the largest steps to the smallest. Activations after a ReLU are
// mostly small, so with a lower bound for the sum of a pair of x, bins hold more; the few larger
// pairs are multiplied apart (excess.h). FBGEMM's 16-bit kernels treat large weights the same way
// (Park et al., "Deep Learning Inference in Facebook Data Centers", 2018).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/onednn/bytes/tiles.h"

namespace octet::onednn {

// The steps of one block of channels in the order of their bins.
struct BinnedBlock {
  int32_t bins[kMostBin] = {};  // how many of kMostBin steps, of one less, ...
  // the step whose x each one reads; a step that was split occurs twice
  std::vector<int32_t> order;
  std::vector<int8_t> weights;  // [order.size(), lanes, 4]
};

// The greatest byte of x, and the greatest sum of a pair of them. With a pair of at most 255 no
// step is split.
struct ByteBound {
  int byte = 255;
  int pair = 2 * 255;
};

// weights: [steps, lanes, 4].
BinnedBlock make_bins(std::span<const int8_t> weights, int lanes, ByteBound bound);

// The time that the block takes, where the same steps of kWords take 1.
double cost_of(const BinnedBlock& block, int64_t steps);

}  // namespace octet::onednn

// Packs weights into "bins", with which AVX2 and AVX-512 without VNNI multiply bytes exactly and
// fast (Multiply::kPairs of tiles.h).
//
// vpmaddubsw multiplies 32 or 64 bytes at once and adds neighboring products, x0 * w0 + x1 * w1,
// with x unsigned and w signed. Its 16-bit results saturate: 255 * 127 + 255 * 127 does not fit.
// oneDNN 3.2 accepts wrong results (or requires x below 128). Widening each result to 32 bits would
// be exact only if nothing saturated, and would cost as much as the multiplication.
//
// A bin is a group of up to four steps whose results fit 16 bits when added, for any x, so that
// only the sum of the bin is widened. The weights bound the results. For one channel:
//
//   weights     maximum (x = 255 where w > 0)    minimum (x = 255 where w < 0)
//   100  -50    25500                            -12750
//    20  -40     5100                            -10200    fits the same bin: 30600, -22950
//    20   40    15300                                 0    does not fit: 25500 + 15300 > 32767
//   100   90    48450: too large by itself, so it is split into the steps (38, 90) and (62, 0),
//               which read the same x
//
// Bins are filled greedily, largest steps first. Activations after a ReLU are mostly small, so bins
// hold more steps if the sum of a pair of x is bounded; the few larger pairs are multiplied
// separately (excess.h). FBGEMM's 16-bit kernels treat large weights in this way (Park et al.,
// "Deep Learning Inference in Facebook Data Centers", 2018).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/onednn/bytes/tiles.h"

namespace octet::onednn {

// The steps of one block of channels, in the order of their bins.
struct BinnedBlock {
  int32_t bins[kMostBin] = {};  // number of bins with kMostBin steps, with one less, ...
  // the step whose x is read; a step that was split occurs twice
  std::vector<int32_t> order;
  std::vector<int8_t> weights;  // [order.size(), lanes, 4]
};

// The largest byte of x, and the largest sum of a pair of bytes. With a pair of at most 255 no step
// is split.
struct ByteBound {
  int byte = 255;
  int pair = 2 * 255;
};

// weights: [steps, lanes, 4].
BinnedBlock make_bins(std::span<const int8_t> weights, int lanes, ByteBound bound);

// The run time of the block relative to kWords.
double cost_of(const BinnedBlock& block, int64_t steps);

}  // namespace octet::onednn

// What becomes of the sums of convolutions and linear layers on bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/onednn/bytes/tiles.h"
#include "backends/onednn/kernels/byte_scales.h"
#include "core/base/tensor.h"

namespace octet::onednn {

// Of y = f(sum): what `output` says, with the scales and biases of all outputs (kRaw: none), and
// the clamp of kReals. With several segments: kReals, scales [segments, outputs], without clamp.
struct ByteConvOutput {
  TileOutput output = TileOutput::kRaw;
  ByteScales scales;
  float low = 0, high = 0;
  bool is_fused = true;             // the other fields are for step by step
  float zero_point = 0;             // of y as it is written
  std::vector<int32_t> start = {};  // of all outputs: added to their sums; empty for 0
};

// A tile that makes this of its sums; where it lies and what it multiplies is left open.
Tile tile_for(const ByteConvOutput& output);

// What an input zero point that no bias holds adds to the sums of each output. weights: s8, outputs
// first.
std::vector<int32_t> zero_point_start(int zero_point, const Tensor& weights);

}  // namespace octet::onednn

// The shape of a convolution or linear layer on bytes, and what its sums become.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backends/onednn/bytes/tiles.h"
#include "backends/onednn/form.h"
#include "core/base/tensor.h"

namespace octet::onednn {

// x: u8 [batch, groups * channels, size...] channels-last, y: [batch, groups * outputs,
// out_size...] channels-last. Weights: s8 [groups * outputs, channels, kernel...], row-major.
// Missing dimensions come first, with 1 (padding 0).
struct ByteConvShape {
  int64_t batch = 1, groups = 1;
  int64_t channels = 1, outputs = 1;  // of a group
  std::array<int64_t, 3> size = {1, 1, 1}, out_size = {1, 1, 1}, kernel = {1, 1, 1};
  // dilation: 1 is dense; padding: in front, may be negative
  std::array<int64_t, 3> stride = {1, 1, 1}, dilation = {1, 1, 1}, padding = {0, 0, 0};
  // The places of output pixels in y, counted in pixels: every y_step-th one of y_size from y_first
  // on. Sizes of 0: out_size, without gaps.
  std::array<int64_t, 3> y_size = {0, 0, 0}, y_step = {1, 1, 1}, y_first = {0, 0, 0};
  // of a linear layer: parts of `channels` that have scales of their own; a multiple of 4 each
  int64_t segments = 1;
};

// What is known of x: the greatest byte that it can hold, and the one near which most are: its zero
// point, padding too.
struct ByteRange {
  uint8_t highest = 255;
  uint8_t usual = 128;
};

// x[rows, in] times weights [out, in].
ByteConvShape linear_shape(int64_t rows, int64_t in, int64_t out);

// Whether every pixel is read once, by itself.
bool is_pointwise(const ByteConvShape& shape);
// Makes one long row of all pixels of a 1x1 convolution; leaves others as they are.
ByteConvShape with_long_rows(ByteConvShape shape);

// Columns and rows of x that so many of y are made from.
inline int64_t input_columns(const ByteConvShape& s, int64_t columns) {
  return (columns - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1;
}
inline int64_t input_rows(const ByteConvShape& s, int64_t rows) {
  return (rows - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1;
}

// y = f(sum): what `output` says, with the scales and biases of all outputs (kRaw: none), and
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

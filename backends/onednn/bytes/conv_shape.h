// The shape of a convolution or linear layer on bytes, and how its sums become outputs.
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
// Missing dimensions are the leading ones, with size 1 (padding 0).
struct ByteConvShape {
  int64_t batch = 1, groups = 1;
  int64_t channels = 1, outputs = 1;  // per group
  std::array<int64_t, 3> size = {1, 1, 1}, out_size = {1, 1, 1}, kernel = {1, 1, 1};
  // dilation: 1 is dense; padding: before the first element, may be negative
  std::array<int64_t, 3> stride = {1, 1, 1}, dilation = {1, 1, 1}, padding = {0, 0, 0};
  // Which pixels of y are written: of y_size pixels, every y_step-th one from y_first on. Sizes of
  // 0: out_size, without gaps.
  std::array<int64_t, 3> y_size = {0, 0, 0}, y_step = {1, 1, 1}, y_first = {0, 0, 0};
  // linear layers: groups of `channels` that have separate scales; each a multiple of 4
  int64_t segments = 1;
};

// What is known about x: its largest possible byte, and its most frequent one, the zero point (also
// the padding).
struct ByteRange {
  uint8_t highest = 255;
  uint8_t usual = 128;
};

// x[rows, in] times weights [out, in].
ByteConvShape linear_shape(int64_t rows, int64_t in, int64_t out);

// Whether each pixel of y reads one pixel of x, and each pixel of x is read once.
bool is_pointwise(const ByteConvShape& shape);
// Turns all pixels of a 1x1 convolution into one long row; returns other shapes unchanged.
ByteConvShape with_long_rows(ByteConvShape shape);

// Columns and rows of x that are read for a number of columns or rows of y.
inline int64_t input_columns(const ByteConvShape& s, int64_t columns) {
  return (columns - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1;
}
inline int64_t input_rows(const ByteConvShape& s, int64_t rows) {
  return (rows - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1;
}

// y = f(sum), as `output` says, with the scales and biases of all outputs (kRaw: none) and the
// clamp of kReals. Several segments require kReals, scales [segments, outputs], and no clamp.
struct ByteConvOutput {
  TileOutput output = TileOutput::kRaw;
  ByteScales scales;
  float low = 0, high = 0;
  bool is_fused = true;             // false: step by step
  float zero_point = 0;             // step by step: of y as written
  std::vector<int32_t> start = {};  // added to the sums, one per output; empty: 0
};

// A tile with this output; its memory and operands are left open.
Tile tile_for(const ByteConvOutput& output);

// What an input zero point that is not folded into the bias adds to the sums of each output.
// weights: s8, outputs first.
std::vector<int32_t> zero_point_start(int zero_point, const Tensor& weights);

}  // namespace octet::onednn

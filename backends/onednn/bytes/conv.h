// Convolutions and linear layers on bytes (u8 x s8) for CPUs whose best is not AVX512-VNNI: the
// same integers as there, without a limit on what x and weights may be. Any kernel, stride,
// dilation, padding and grouping, in up to three dimensions; a linear layer is a 1x1 convolution of
// its rows. Weights go into the order of tiles.h when the segment is compiled; whether in bins or
// not is decided by the weights themselves.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "backends/onednn/builder.h"
#include "backends/onednn/bytes/output.h"

namespace octet::onednn {

// x: u8 [batch, groups * channels, size...] channels-last, y: [batch, groups * outputs,
// out_size...] channels-last. Weights: s8 [groups * outputs, channels, kernel...], row-major.
// Missing dimensions stand in front, with 1 (padding 0).
struct ByteConvShape {
  int64_t batch = 1, groups = 1;
  int64_t channels = 1, outputs = 1;  // of a group
  std::array<int64_t, 3> size = {1, 1, 1}, out_size = {1, 1, 1}, kernel = {1, 1, 1};
  // dilation: 1 is dense; padding: in front, may be negative
  std::array<int64_t, 3> stride = {1, 1, 1}, dilation = {1, 1, 1}, padding = {0, 0, 0};
  // Where output pixels stand in y, counted in pixels: every y_step-th one of y_size from y_first
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

// Whether this CPU has tiles but no better kernels, and the sums fit into 32 bits.
bool has_byte_conv(const ByteConvShape& shape);

// Appends one step. Requires has_byte_conv(shape). residual: of y's shape, u8; for kSum alone.
void add_byte_conv(SegmentBuilder& builder, const char* what, const ByteConvShape& shape,
                   const Tensor& weights, const ByteConvOutput& output, ByteRange range,
                   const Place& x, const Place& y, const Place* residual);

}  // namespace octet::onednn

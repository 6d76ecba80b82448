// What emitters of convolutions and other products of bytes share: the geometry of a convolution,
// its arithmetic as byte kernels take it, and the steps of the tiles of bytes
// (backends/onednn/bytes).
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "backends/onednn/builder/segment_builder.h"
#include "backends/onednn/bytes/conv.h"
#include "backends/onednn/emit/arithmetic.h"

namespace octet::onednn {

struct Geometry {
  Dims stride;
  Dims dilation;  // as oneDNN counts: 0 is dense
  Dims padding_begin;
  Dims padding_end;
  bool is_padded = false;
};

// The geometry of a convolution, or of a transposed one, with these shapes of input, weight and
// output.
Geometry conv_geometry(const ProgramOp& op, const Dims& x, const Dims& w, const Dims& y,
                       bool transposed);

// dims[first...], at most three, preceded by `missing` up to three.
std::array<int64_t, 3> spatial(const Dims& dims, size_t first, int64_t missing);

// The arithmetic of `plan` as scales of bytes, into steps of `written`; nullopt when a sum might
// not fit into 32 bits. residual: what is added, null for nothing. w: the weights' shape, outputs
// first.
std::optional<ByteScales> byte_scales(const Arithmetic& plan, const QuantParams& written,
                                      const Clamp& clamp, const QuantParams* residual,
                                      const Dims& w);

// Floats: real_output(). Bytes: kBytes, or kSum with a residual, as byte_scales() has it, fused, or
// in oneDNN's steps; nullopt when a sum might not fit into 32 bits. w: the weights' shape, outputs
// first.
std::optional<ByteConvOutput> byte_output(const Arithmetic& plan, const QuantParams& written,
                                          const Clamp& clamp, const QuantParams* residual,
                                          const Dims& w, bool is_fused);

// kReals: as `plan` folds scales and bias, then `clamp`.
ByteConvOutput real_output(const Arithmetic& plan, const Clamp& clamp, size_t outputs);

// Requires has_byte_conv(shape). residual: of y's shape, u8; for kSum alone.
void add_byte_conv(SegmentBuilder& builder, const char* what, const ByteConvShape& shape,
                   const Tensor& weights, const ByteConvOutput& output, ByteRange range,
                   const Place& x, const Place& y, const Place* residual);

// Requires has_byte_depthwise(shape). output: kBytes or kReals.
void add_byte_depthwise(SegmentBuilder& builder, const ByteConvShape& shape, const Tensor& weights,
                        const ByteConvOutput& output, const Place& x, const Place& y);

}  // namespace octet::onednn

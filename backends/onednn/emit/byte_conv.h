// Helpers for emitting convolutions and other products of bytes: the geometry of a convolution, its
// arithmetic in the form of the byte kernels, and the steps that run the tiles of
// backends/onednn/bytes.
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
  Dims dilation;  // as in oneDNN: 0 is dense
  Dims padding_begin;
  Dims padding_end;
  bool is_padded = false;
};

// The geometry of a convolution or transposed convolution with these input, weight and output
// shapes.
Geometry conv_geometry(const ProgramOp& op, const Dims& x, const Dims& w, const Dims& y,
                       bool transposed);

// Returns dims[first...] with leading `missing` values, three in all.
std::array<int64_t, 3> spatial(const Dims& dims, size_t first, int64_t missing);

// Converts `plan` to scales of bytes in steps of `written`; nullopt when a sum might not fit 32
// bits. residual: the addend, or null. w: the weights' shape, outputs first.
std::optional<ByteScales> byte_scales(const Arithmetic& plan, const QuantParams& written,
                                      const Clamp& clamp, const QuantParams* residual,
                                      const Dims& w);

// As real_output() for float results. For bytes: kBytes, or kSum with a residual, with the scales
// of byte_scales() if is_fused, else in oneDNN's steps; nullopt when a sum might not fit 32 bits.
// w: the weights' shape, outputs first.
std::optional<ByteConvOutput> byte_output(const Arithmetic& plan, const QuantParams& written,
                                          const Clamp& clamp, const QuantParams* residual,
                                          const Dims& w, bool is_fused);

// kReals with the scales and bias of `plan`, then `clamp`.
ByteConvOutput real_output(const Arithmetic& plan, const Clamp& clamp, size_t outputs);

// Requires has_byte_conv(shape). residual: only for kSum; u8, of y's shape.
void add_byte_conv(SegmentBuilder& builder, const char* what, const ByteConvShape& shape,
                   const Tensor& weights, const ByteConvOutput& output, ByteRange range,
                   const Place& x, const Place& y, const Place* residual);

// Requires has_byte_depthwise(shape). output: kBytes or kReals.
void add_byte_depthwise(SegmentBuilder& builder, const ByteConvShape& shape, const Tensor& weights,
                        const ByteConvOutput& output, const Place& x, const Place& y);

}  // namespace octet::onednn

// Convolutions and linear layers on bytes (u8 x s8) for CPUs with AVX2 but without AVX512-VNNI.
// They compute the same integers as VNNI kernels, for all x and weights. Any kernel, stride,
// dilation, padding and grouping, in up to three dimensions; a linear layer is a 1x1 convolution of
// its rows. Weights are packed for tiles.h when the segment is compiled; the weights decide whether
// bins pay.
#pragma once

#include "backends/onednn/bytes/conv_shape.h"
#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"
#include "core/base/tensor.h"

namespace octet::onednn {

// Whether tiles are the best kernels of this CPU, and the sums fit 32 bits.
bool has_byte_conv(const ByteConvShape& shape);

// Arguments: x, y, scratch memory (if any), and for kSum a residual of y's shape, u8. Requires
// has_byte_conv(shape). Uses OpenMP's current number of threads.
ScratchLoop byte_conv_loop(const ByteConvShape& shape, const Tensor& weights,
                           const ByteConvOutput& output, ByteRange range);

// ---- depthwise convolutions, also exact

// Whether each group has one input and one output channel, in at most two dimensions, and tiles are
// the best kernels of this CPU.
bool has_byte_depthwise(const ByteConvShape& shape);

// Arguments: x, y, scratch memory. Requires has_byte_depthwise(shape). output: kBytes or kReals.
// Uses OpenMP's current number of threads.
ScratchLoop byte_depthwise_loop(const ByteConvShape& shape, const Tensor& weights,
                                const ByteConvOutput& output);

// ---- products of two activations, as in attention. Zero points are subtracted when bytes are
// widened to words, so the sums are exact and need no correction.

// Whether tiles are the best kernels of this CPU, and sums of `depth` products fit 32 bits.
bool has_byte_matmul(int64_t depth);

// a: [batch..., M, K], b: [batch..., K, N], u8 or s8, any strides (0 repeats), of y's rank. y:
// row-major, as `output` says, with one scale for all columns. Arguments: a, b, y, scratch memory.
// Requires has_byte_matmul(K). Uses OpenMP's current number of threads.
ScratchLoop byte_matmul_loop(const Stored& a, const Stored& b, const Stored& y,
                             const ByteConvOutput& output);

}  // namespace octet::onednn

// Convolutions and linear layers on bytes (u8 x s8) for CPUs whose best is not AVX512-VNNI: the
// same integers as there, without a limit on what x and weights may be. Any kernel, stride,
// dilation, padding and grouping, in up to three dimensions; a linear layer is a 1x1 convolution of
// its rows. Weights go into the order of tiles.h when the segment is compiled; whether in bins or
// not is decided by the weights themselves.
#pragma once

#include "backends/onednn/bytes/conv_shape.h"
#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"
#include "core/base/tensor.h"

namespace octet::onednn {

// Whether this CPU has tiles but no better kernels, and the sums fit into 32 bits.
bool has_byte_conv(const ByteConvShape& shape);

// Arguments: x, y, scratch memory (if any), and for kSum a residual of y's shape, u8. Requires
// has_byte_conv(shape). For as many threads as OpenMP has now.
ScratchLoop byte_conv_loop(const ByteConvShape& shape, const Tensor& weights,
                           const ByteConvOutput& output, ByteRange range);

// ---- depthwise convolutions, exact as well

// Whether the shape is one channel in and one out for each group, in at most two dimensions, and
// this CPU has tiles but no better kernels.
bool has_byte_depthwise(const ByteConvShape& shape);

// Arguments: x, y, scratch memory. Requires has_byte_depthwise(shape). output: kBytes or kReals.
// For as many threads as OpenMP has now.
ScratchLoop byte_depthwise_loop(const ByteConvShape& shape, const Tensor& weights,
                                const ByteConvOutput& output);

// ---- products of two activations, as in attention. Both lose their zero points when they are
// widened to words, so the sums are exact and need no correction.

// Whether this CPU has tiles but no better kernels, and sums over `depth` products fit into 32
// bits.
bool has_byte_matmul(int64_t depth);

// a: [batch..., M, K], b: [batch..., K, N], u8 or s8, in any strides (0 repeats), of y's rank; y:
// row-major, as `output` says, whose scales are one for all columns. Arguments: a, b, y, scratch
// memory. Requires has_byte_matmul(K). For as many threads as OpenMP has now.
ScratchLoop byte_matmul_loop(const Stored& a, const Stored& b, const Stored& y,
                             const ByteConvOutput& output);

}  // namespace octet::onednn

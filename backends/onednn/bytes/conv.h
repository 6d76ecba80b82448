// Convolutions and linear layers on bytes (u8 x s8) for CPUs whose best is not AVX512-VNNI: the
// same integers as there, without a limit on what x and weights may be. Any kernel, stride,
// dilation, padding and grouping, in up to three dimensions; a linear layer is a 1x1 convolution of
// its rows. Weights go into the order of tiles.h when the segment is compiled; whether in bins or
// not is decided by the weights themselves.
#pragma once

#include "backends/onednn/bytes/conv_shape.h"
#include "backends/onednn/bytes/output.h"
#include "backends/onednn/kernels/loop.h"
#include "core/base/tensor.h"

namespace octet::onednn {

// Whether this CPU has tiles but no better kernels, and the sums fit into 32 bits.
bool has_byte_conv(const ByteConvShape& shape);

// Arguments: x, y, scratch memory (if any), and for kSum a residual of y's shape, u8. Requires
// has_byte_conv(shape). For as many threads as OpenMP has now.
ScratchLoop byte_conv_loop(const ByteConvShape& shape, const Tensor& weights,
                           const ByteConvOutput& output, ByteRange range);

}  // namespace octet::onednn

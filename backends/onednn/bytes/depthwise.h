// Depthwise convolutions of bytes (u8 x s8) for CPUs whose best is not AVX512-VNNI; exact, as
// conv.h.
#pragma once

#include "backends/onednn/bytes/conv.h"

namespace octet::onednn {

// Whether the shape is one channel in and one out for each group, in at most two dimensions, and
// this CPU has tiles but no better kernels.
bool has_byte_depthwise(const ByteConvShape& shape);

// Arguments: x, y, scratch memory. Requires has_byte_depthwise(shape). output: kBytes or kReals.
// For as many threads as OpenMP has now.
ScratchLoop byte_depthwise_loop(const ByteConvShape& shape, const Tensor& weights,
                                const ByteConvOutput& output);

}  // namespace octet::onednn

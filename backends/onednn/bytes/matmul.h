// Products of two activations of bytes, as in attention, for CPUs whose best is not AVX512-VNNI.
// Both lose their zero points when they are widened to words, so the sums are exact and need no
// correction.
#pragma once

#include "backends/onednn/bytes/output.h"
#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"

namespace octet::onednn {

// Whether this CPU has tiles but no better kernels, and sums over `depth` products fit into 32
// bits.
bool has_byte_matmul(int64_t depth);

// a: [batch..., M, K], b: [batch..., K, N], u8 or s8, in any strides (0 repeats), of y's rank; y:
// row-major, as `output` says, whose scales are one for all columns. Arguments: a, b, y, scratch
// memory. Requires has_byte_matmul(K). For as many threads as OpenMP has now.
ScratchLoop byte_matmul_loop(const Stored& a, const Stored& b, const Stored& y,
                             const ByteConvOutput& output);

}  // namespace octet::onednn

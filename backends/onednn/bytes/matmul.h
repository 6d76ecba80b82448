// Products of two activations of bytes, as in attention, for CPUs whose best is not AVX512-VNNI.
// Both lose their zero points when they are widened to words, so the sums are exact and need no
// correction.
#pragma once

#include "backends/onednn/bytes/conv.h"

namespace octet::onednn {

// Whether this CPU has tiles but no better kernels, and sums over `depth` products fit into 32
// bits.
bool has_byte_matmul(int64_t depth);

// Appends one step. a: [batch..., M, K], b: [batch..., K, N], u8 or s8, in any strides (0 repeats),
// of y's rank; y: row-major, as `output` says, whose scales are one for all columns. Requires
// has_byte_matmul(K).
void add_byte_matmul(SegmentBuilder& builder, const Stored& a, const Stored& b, const Stored& y,
                     const ByteConvOutput& output);

}  // namespace octet::onednn

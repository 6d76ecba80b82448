// Softmax of rows of floats: for AVX-512, and of masked rows for all CPUs.
#pragma once

#include <cstdint>

#include "backends/onednn/kernels/loop.h"

namespace octet::onednn {

bool has_softmax_kernel();
// Of `rows` rows of `width` floats, one after the other in memory; y may be x. Only where
// has_softmax_kernel(). Arguments: x, y.
Loop softmax_loop(int64_t rows, int64_t width);
// The same where a row of nothing but -inf gives zeros. On every CPU.
Loop masked_softmax_loop(int64_t rows, int64_t width);

}  // namespace octet::onednn

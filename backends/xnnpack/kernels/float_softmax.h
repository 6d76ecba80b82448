// Softmax of floats along any dimension. As in PyTorch, a row with nothing but -inf, or with inf or
// NaN in it, gives NaNs; where the row is masked, one with nothing but -inf gives zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/xnnpack/functions.h"

namespace octet::xnnpack {

// x, y: [outer, size, inner], of which `size` sums to 1.
struct FloatSoftmax {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
  bool is_masked = false;
};

// Allocates nothing. pool: null for one thread.
void run(const FloatSoftmax& softmax, const std::byte* from, std::byte* to, pthreadpool_t pool);

}  // namespace octet::xnnpack

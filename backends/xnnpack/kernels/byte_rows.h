// Rows of signed bytes as the loops of row_kernels.h read them.
#pragma once

#include <cstdint>

#include "backends/xnnpack/kernels/row_kernels.h"

namespace octet::xnnpack {

// What the best kernel wants signed bytes to be combined with (exclusive or): nothing, or what
// makes them unsigned ones, 128 higher.
inline uint8_t byte_flip() { return best_row_kernel().lowest == 0 ? 128 : 0; }

// One row in whole groups. Returns the sum of its bytes.
[[gnu::always_inline]] inline int32_t pack_row(const int8_t* x, uint8_t* to, int64_t depth,
                                               int64_t stride, uint8_t flip) {
  const int8_t* __restrict from = x;
  uint8_t* __restrict bytes = to;
  int32_t sum = 0;
  for (int64_t k = 0; k < depth; ++k) {
    sum += from[k];
    bytes[k] = static_cast<uint8_t>(from[k]) ^ flip;
  }
  for (int64_t k = depth; k < stride; ++k) bytes[k] = 0;
  return sum;
}

}  // namespace octet::xnnpack

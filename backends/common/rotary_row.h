// One row of a rotary position embedding: the halves of x are the coordinates of points, which are
// turned.
#pragma once

#include <cstdint>

namespace octet {

// y = x * cosine + (-second half of x, first half of x) * sine, all rows of 2 * half elements.
// `count` points from the first one given; y is not x.
[[gnu::always_inline]] inline void rotate_row(const float* x, const float* cosine,
                                              const float* sine, float* __restrict y, int64_t half,
                                              int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = x[i] * cosine[i] - x[i + half] * sine[i];
    y[i + half] = x[i + half] * cosine[i + half] + x[i] * sine[i + half];
  }
}

}  // namespace octet

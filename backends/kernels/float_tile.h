// The inner loop of float products: a tile of results in registers.
#pragma once

#include <cstdint>

#include "backends/kernels/isa.h"

namespace octet {

// y[rows, vectors of lanes] = from + a[rows, depth] * b[depth, vectors of lanes]. The elements of a
// are a_row_step and a_step apart; other steps are between rows, and may be 0. Rows and vectors are
// compile-time constants, so that the sums are registers.
template <int64_t lanes, int64_t rows, int64_t vectors>
[[gnu::always_inline]] inline void add_tile(const float* a, int64_t a_row_step, int64_t a_step,
                                            const float* b, int64_t b_step, const float* from,
                                            int64_t from_step, float* y, int64_t y_step,
                                            int64_t depth) {
  using Floats = typename VectorOf<lanes>::Floats;
  Floats sums[rows][vectors];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      sums[r][v] = *reinterpret_cast<const Floats*>(from + r * from_step + v * lanes);
  for (int64_t d = 0; d < depth; ++d) {
    Floats columns[vectors];
    for (int64_t v = 0; v < vectors; ++v)
      columns[v] = *reinterpret_cast<const Floats*>(b + d * b_step + v * lanes);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        sums[r][v] += a[r * a_row_step + d * a_step] * columns[v];
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      *reinterpret_cast<Floats*>(y + r * y_step + v * lanes) = sums[r][v];
}

}  // namespace octet

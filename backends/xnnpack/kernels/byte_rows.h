// Rows of signed bytes as the loops of row_kernels.h read them, and their products as bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"
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

// The best kernel's products of these rows and blocks. y_zero, where y has bytes: those are rounded
// to `bytes`, which lie there as the floats of view.y do.
inline void multiply_rows(const RowProductView& view, int64_t row, int64_t rows, int64_t block,
                          int64_t blocks, std::optional<int32_t> y_zero, int8_t* bytes) {
  best_row_kernel().run(view, row, rows, block, blocks);
  if (!y_zero) return;
  const int64_t pitch = view.pitch == 0 ? view.out : view.pitch, column = block * kBlockColumns,
                columns = std::min(blocks * kBlockColumns, view.out - column);
  const bool is_one_run = columns == pitch;
  const int64_t runs = is_one_run ? 1 : rows, run = is_one_run ? rows * columns : columns;
  const float* const reals = view.y + row * pitch + column;
  int8_t* const to = bytes + row * pitch + column;
  const ByteOutput output = byte_output({1, *y_zero});
  run_vectorised([=]() __attribute__((always_inline)) {
    for (int64_t i = 0; i < runs; ++i)
      round_to_bytes(reals + i * pitch, to + i * pitch, run, output);
  });
}

}  // namespace octet::xnnpack

// Packs rows of signed bytes for the loops of row_kernels.h, and rounds their products to bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"
#include "backends/xnnpack/kernels/row_kernels.h"

namespace octet::xnnpack {

// The xor mask for signed bytes that the best kernel needs: 0, or 128 to make them unsigned (128
// higher).
inline uint8_t byte_flip() { return best_row_kernel().lowest == 0 ? 128 : 0; }

// Packs one row in whole groups. Returns the sum of its bytes.
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

// Multiplies rows and blocks with the best kernel. If y has bytes, y_zero is their zero point, and
// the floats of view.y are rounded to `bytes`, in the same layout.
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
  run_vectorized([=]() __attribute__((always_inline)) {
    for (int64_t i = 0; i < runs; ++i)
      round_to_bytes(reals + i * pitch, to + i * pitch, run, output);
  });
}

}  // namespace octet::xnnpack

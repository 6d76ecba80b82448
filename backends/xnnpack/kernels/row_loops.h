// Helpers that the inner loops of row_kernels.h share, and the declarations of the loops for Arm.
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/xnnpack/kernels/row_kernels.h"

namespace octet::xnnpack {

inline int32_t four_bytes(const uint8_t* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// Converts the sums of a block to reals.
[[gnu::always_inline]] inline void finish(const RowProductView& p, int64_t row, int64_t block,
                                          const int32_t* sum) {
  const int64_t column = block * kBlockColumns;
  const RowParameters r = p.parameters[row];
  const int32_t term = p.terms == nullptr ? 0 : p.terms[row];
  float real[kBlockColumns];
  for (int64_t c = 0; c < kBlockColumns; ++c) {
    const float v = static_cast<float>(sum[c] - r.zero_point * p.sums[column + c] + term) *
                        (r.scale * p.scale[column + c]) +
                    p.bias[column + c];
    const float least = v < p.low ? p.low : v;
    real[c] = least > p.high ? p.high : least;
  }
  float* y = p.y + row * (p.pitch == 0 ? p.out : p.pitch) + column;
  if (p.out - column >= kBlockColumns) {
    std::memcpy(y, real, sizeof(real));
  } else {
    std::memcpy(y, real, static_cast<size_t>(p.out - column) * sizeof(float));
  }
}

// The loops for Arm, of weights with 4 or 8 bits. NEON sums 16-bit products in pairs; dotprod adds
// four products of bytes with one instruction; i8mm multiplies 8 bytes of two rows by 8 bytes of
// two columns.
template <int kBits>
void run_rows_neon(const RowProductView& view, int64_t row, int64_t rows, int64_t block,
                   int64_t blocks);
template <int kBits>
void run_rows_dotprod(const RowProductView& view, int64_t row, int64_t rows, int64_t block,
                      int64_t blocks);
template <int kBits>
void run_rows_i8mm(const RowProductView& view, int64_t row, int64_t rows, int64_t block,
                   int64_t blocks);

}  // namespace octet::xnnpack

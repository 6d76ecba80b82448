// The inner loops of the custom row product for 64-bit Arm. Loops over sums are unrolled explicitly,
// as in row_kernels.cpp.
#if defined(__aarch64__)
#include <arm_neon.h>

#include "backends/xnnpack/kernels/row_loops.h"

// Every CPU with these instructions has those of armv8.2.
#define OCTET_DOTPROD target("arch=armv8.2-a+dotprod")
#define OCTET_I8MM target("arch=armv8.2-a+dotprod+i8mm")

namespace octet::xnnpack {
namespace {

constexpr int64_t kQuarters = 4;                    // of a block: four columns
constexpr int64_t kQuarterBytes = 4 * kGroup;       // of four inputs
constexpr int64_t kBytes = kGroup * kBlockColumns;  // of a block, of four inputs

// ---- NEON

template <int64_t kRows>
void multiply_neon(const RowProductView& p, int64_t row, int64_t block) {
  const int8_t* w = p.weights + block * p.depth * kBlockColumns;
  const uint8_t* x = p.rows + row * p.stride;
  int32x4_t sum[kRows][2 * kQuarters] = {};  // each column in two sums
  for (int64_t k = 0; k < p.depth; k += kGroup, w += kBytes) {
    int8x16_t four[kRows];
#pragma GCC unroll 8
    for (int64_t m = 0; m < kRows; ++m)
      four[m] = vreinterpretq_s8_s32(vdupq_n_s32(four_bytes(x + m * p.stride + k)));
#pragma GCC unroll 8
    for (int64_t q = 0; q < kQuarters; ++q) {
      const int8x16_t columns = vld1q_s8(w + q * kQuarterBytes);
#pragma GCC unroll 8
      for (int64_t m = 0; m < kRows; ++m) {
        sum[m][2 * q] =
            vpadalq_s16(sum[m][2 * q], vmull_s8(vget_low_s8(columns), vget_low_s8(four[m])));
        sum[m][2 * q + 1] = vpadalq_s16(sum[m][2 * q + 1], vmull_high_s8(columns, four[m]));
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t m = 0; m < kRows; ++m) {
    int32_t sums[kBlockColumns];
#pragma GCC unroll 8
    for (int64_t q = 0; q < kQuarters; ++q)
      vst1q_s32(sums + 4 * q, vpaddq_s32(sum[m][2 * q], sum[m][2 * q + 1]));
    finish(p, row + m, block, sums);
  }
}

// ---- dotprod

// Adds the products of four inputs of each row: lane kLane of `bytes`.
template <int kLane, int64_t kRows>
[[gnu::always_inline, gnu::OCTET_DOTPROD]] inline void add_four(
    const int8_t* w, const int8x16_t (&bytes)[kRows], int32x4_t (&sum)[kRows][kQuarters]) {
#pragma GCC unroll 8
  for (int64_t q = 0; q < kQuarters; ++q) {
    const int8x16_t columns = vld1q_s8(w + kLane * kBytes + q * kQuarterBytes);
#pragma GCC unroll 8
    for (int64_t m = 0; m < kRows; ++m)
      sum[m][q] = vdotq_laneq_s32(sum[m][q], columns, bytes[m], kLane);
  }
}

template <int64_t kRows>
[[gnu::OCTET_DOTPROD]] void multiply_dotprod(const RowProductView& p, int64_t row, int64_t block) {
  const int8_t* w = p.weights + block * p.depth * kBlockColumns;
  const int8_t* x = reinterpret_cast<const int8_t*>(p.rows) + row * p.stride;
  int32x4_t sum[kRows][kQuarters] = {};
  int8x16_t bytes[kRows];
  int64_t k = 0;
  for (; k + 4 * kGroup <= p.depth; k += 4 * kGroup, w += 4 * kBytes) {
#pragma GCC unroll 8
    for (int64_t m = 0; m < kRows; ++m) bytes[m] = vld1q_s8(x + m * p.stride + k);
    add_four<0>(w, bytes, sum);
    add_four<1>(w, bytes, sum);
    add_four<2>(w, bytes, sum);
    add_four<3>(w, bytes, sum);
  }
  for (; k < p.depth; k += kGroup, w += kBytes) {
#pragma GCC unroll 8
    for (int64_t m = 0; m < kRows; ++m)
      bytes[m] = vreinterpretq_s8_s32(vdupq_n_s32(four_bytes(p.rows + (row + m) * p.stride + k)));
    add_four<0>(w, bytes, sum);
  }
#pragma GCC unroll 8
  for (int64_t m = 0; m < kRows; ++m) {
    int32_t sums[kBlockColumns];
#pragma GCC unroll 8
    for (int64_t q = 0; q < kQuarters; ++q) vst1q_s32(sums + 4 * q, sum[m][q]);
    finish(p, row + m, block, sums);
  }
}

void few_rows_dotprod(const RowProductView& p, int64_t row, int64_t rows, int64_t block) {
  for (; rows >= 4; row += 4, rows -= 4) multiply_dotprod<4>(p, row, block);
  for (; rows >= 2; row += 2, rows -= 2) multiply_dotprod<2>(p, row, block);
  if (rows == 1) multiply_dotprod<1>(p, row, block);
}

// ---- i8mm

// Adds the products of eight inputs of each pair of rows. next: weights of the second four; null:
// zeros.
template <int64_t kPairs>
[[gnu::always_inline, gnu::OCTET_I8MM]] inline void add_eight(
    const int8_t* w, const int8_t* next, const int8x16_t (&bytes)[kPairs],
    int32x4_t (&sum)[kPairs][2 * kQuarters]) {
#pragma GCC unroll 8
  for (int64_t q = 0; q < kQuarters; ++q) {
    const int32x4_t first = vreinterpretq_s32_s8(vld1q_s8(w + q * kQuarterBytes));
    int32x4_t second = vdupq_n_s32(0);
    if (next != nullptr) second = vreinterpretq_s32_s8(vld1q_s8(next + q * kQuarterBytes));
    const int8x16_t left = vreinterpretq_s8_s32(vzip1q_s32(first, second)),
                    right = vreinterpretq_s8_s32(vzip2q_s32(first, second));
#pragma GCC unroll 8
    for (int64_t i = 0; i < kPairs; ++i) {
      sum[i][2 * q] = vmmlaq_s32(sum[i][2 * q], bytes[i], left);
      sum[i][2 * q + 1] = vmmlaq_s32(sum[i][2 * q + 1], bytes[i], right);
    }
  }
}

template <int64_t kPairs>
[[gnu::OCTET_I8MM]] void multiply_i8mm(const RowProductView& p, int64_t row, int64_t block) {
  const int8_t* w = p.weights + block * p.depth * kBlockColumns;
  const int8_t* x = reinterpret_cast<const int8_t*>(p.rows) + row * p.stride;
  int32x4_t sum[kPairs][2 * kQuarters] = {};  // of two rows and two columns
  int8x16_t bytes[kPairs];
  int64_t k = 0;
  for (; k + 2 * kGroup <= p.depth; k += 2 * kGroup, w += 2 * kBytes) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kPairs; ++i)
      bytes[i] =
          vcombine_s8(vld1_s8(x + 2 * i * p.stride + k), vld1_s8(x + (2 * i + 1) * p.stride + k));
    add_eight(w, w + kBytes, bytes, sum);
  }
  if (k < p.depth) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kPairs; ++i) {
      const uint8_t* const rows = p.rows + (row + 2 * i) * p.stride + k;
      bytes[i] =
          vreinterpretq_s8_s32(int32x4_t{four_bytes(rows), 0, four_bytes(rows + p.stride), 0});
    }
    add_eight(w, nullptr, bytes, sum);
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kPairs; ++i) {
    int32_t sums[2][kBlockColumns];
#pragma GCC unroll 8
    for (int64_t q = 0; q < kQuarters; ++q) {
      const int64x2_t left = vreinterpretq_s64_s32(sum[i][2 * q]),
                      right = vreinterpretq_s64_s32(sum[i][2 * q + 1]);
      vst1q_s32(sums[0] + 4 * q, vreinterpretq_s32_s64(vzip1q_s64(left, right)));
      vst1q_s32(sums[1] + 4 * q, vreinterpretq_s32_s64(vzip2q_s64(left, right)));
    }
    finish(p, row + 2 * i, block, sums[0]);
    finish(p, row + 2 * i + 1, block, sums[1]);
  }
}

}  // namespace

void run_rows_neon(const RowProductView& p, int64_t row, int64_t rows, int64_t block,
                   int64_t blocks) {
  for (int64_t b = block; b < block + blocks; ++b) {
    int64_t m = row;
    for (; m + 2 <= row + rows; m += 2) multiply_neon<2>(p, m, b);
    for (; m < row + rows; ++m) multiply_neon<1>(p, m, b);
  }
}

void run_rows_dotprod(const RowProductView& p, int64_t row, int64_t rows, int64_t block,
                      int64_t blocks) {
  for (int64_t b = block; b < block + blocks; ++b) {
    int64_t m = row;
    for (; m + kTileRows <= row + rows; m += kTileRows) multiply_dotprod<kTileRows>(p, m, b);
    few_rows_dotprod(p, m, row + rows - m, b);
  }
}

void run_rows_i8mm(const RowProductView& p, int64_t row, int64_t rows, int64_t block,
                   int64_t blocks) {
  for (int64_t b = block; b < block + blocks; ++b) {
    int64_t m = row;
    for (; m + kTileRows <= row + rows; m += kTileRows) multiply_i8mm<kTileRows / 2>(p, m, b);
    few_rows_dotprod(p, m, row + rows - m, b);
  }
}

}  // namespace octet::xnnpack

#endif

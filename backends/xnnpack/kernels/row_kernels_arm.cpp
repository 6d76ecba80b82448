// The inner loops of the custom row product for 64-bit Arm. Loops over sums are unrolled
// explicitly, as in row_kernels.cpp.
#if defined(__aarch64__)
#include <arm_neon.h>

#include "backends/xnnpack/kernels/row_loops.h"

// Every CPU with these instructions has those of armv8.2.
#define OCTET_DOTPROD target("arch=armv8.2-a+dotprod")
#define OCTET_I8MM target("arch=armv8.2-a+dotprod+i8mm")

namespace octet::xnnpack {
namespace {

constexpr int64_t kQuarters = 4;               // of a block: four columns
constexpr int64_t kQuarterBytes = 4 * kGroup;  // of four inputs
constexpr int64_t kStep = 2 * kGroup;          // inputs per iteration

// Weights of four columns: of four inputs, and of the next four.
struct Quarter {
  int8x16_t first, next;
};

// w: of a block and kStep inputs. 4 bits: times 16.
template <int kBits>
[[gnu::always_inline]] inline Quarter read_quarter(const int8_t* w, int64_t q) {
  const int8x16_t bytes = vld1q_s8(w + q * kQuarterBytes);
  if constexpr (kBits == 4) return {vshlq_n_s8(bytes, 4), vandq_s8(bytes, vdupq_n_s8(-16))};
  return {bytes, vld1q_s8(w + (kQuarters + q) * kQuarterBytes)};
}

// Only the first four inputs.
[[gnu::always_inline]] inline Quarter read_first(const int8_t* w, int64_t q) {
  return {vld1q_s8(w + q * kQuarterBytes), vdupq_n_s8(0)};
}

[[gnu::always_inline]] inline int8x8_t read_four(const int8_t* x) {
  return vreinterpret_s8_s32(int32x2_t{four_bytes(reinterpret_cast<const uint8_t*>(x)), 0});
}

template <int kBits>
const int8_t* block_of(const RowProductView& p, int64_t block) {
  return p.weights + block * p.groups * p.depth * kBlockColumns * kBits / 8;
}

const int8_t* signed_row(const RowProductView& p, int64_t row) {
  return reinterpret_cast<const int8_t*>(p.rows) + row * p.stride;
}

// As finish, of the sums in registers.
[[gnu::always_inline]] inline void finish_quarters(const RowProductView& p, int64_t row,
                                                   int64_t block, int64_t group,
                                                   const int32x4_t (&sum)[kQuarters]) {
  if (p.adds) {
    float* const y = p.y + row * p.pitch + block * kBlockColumns;
    const float* const scale = p.scale + (block * p.groups + group) * kBlockColumns;
#pragma GCC unroll 8
    for (int64_t q = 0; q < kQuarters; ++q)
      vst1q_f32(y + 4 * q,
                vfmaq_f32(vld1q_f32(y + 4 * q), vcvtq_f32_s32(sum[q]), vld1q_f32(scale + 4 * q)));
    return;
  }
  int32_t sums[kBlockColumns];
#pragma GCC unroll 8
  for (int64_t q = 0; q < kQuarters; ++q) vst1q_s32(sums + 4 * q, sum[q]);
  finish(p, row, block, sums);
}

// ---- NEON

// Adds the products of four inputs.
template <int64_t kRows>
[[gnu::always_inline]] inline void add_neon(int8x16_t columns, int64_t q, const int8_t* x,
                                            int64_t stride,
                                            int32x4_t (&sum)[kRows][2 * kQuarters]) {
#pragma GCC unroll 8
  for (int64_t m = 0; m < kRows; ++m) {
    const int8x16_t four = vreinterpretq_s8_s32(
        vdupq_n_s32(four_bytes(reinterpret_cast<const uint8_t*>(x + m * stride))));
    sum[m][2 * q] = vpadalq_s16(sum[m][2 * q], vmull_s8(vget_low_s8(columns), vget_low_s8(four)));
    sum[m][2 * q + 1] = vpadalq_s16(sum[m][2 * q + 1], vmull_high_s8(columns, four));
  }
}

template <int kBits, int64_t kRows>
void multiply_neon(const RowProductView& p, int64_t row, int64_t block) {
  const int8_t *w = block_of<kBits>(p, block), *x = signed_row(p, row);
  for (int64_t g = 0; g < p.groups; ++g, x += p.depth) {
    int32x4_t sum[kRows][2 * kQuarters] = {};  // each column in two sums
    int64_t k = 0;
    for (; k + kStep <= p.depth; k += kStep, w += kStep * kBlockColumns * kBits / 8)
#pragma GCC unroll 8
      for (int64_t q = 0; q < kQuarters; ++q) {
        const Quarter columns = read_quarter<kBits>(w, q);
        add_neon<kRows>(columns.first, q, x + k, p.stride, sum);
        add_neon<kRows>(columns.next, q, x + k + kGroup, p.stride, sum);
      }
    if (k < p.depth) {
#pragma GCC unroll 8
      for (int64_t q = 0; q < kQuarters; ++q)
        add_neon<kRows>(read_first(w, q).first, q, x + k, p.stride, sum);
      w += kGroup * kBlockColumns;
    }
#pragma GCC unroll 8
    for (int64_t m = 0; m < kRows; ++m) {
      int32x4_t columns[kQuarters];
#pragma GCC unroll 8
      for (int64_t q = 0; q < kQuarters; ++q)
        columns[q] = vpaddq_s32(sum[m][2 * q], sum[m][2 * q + 1]);
      finish_quarters(p, row + m, block, g, columns);
    }
  }
}

// ---- dotprod

template <int64_t kRows>
[[gnu::always_inline, gnu::OCTET_DOTPROD]] inline void add_dotprod(
    Quarter columns, int64_t q, const int8x8_t (&bytes)[kRows],
    int32x4_t (&sum)[kRows][kQuarters]) {
#pragma GCC unroll 8
  for (int64_t m = 0; m < kRows; ++m) {
    sum[m][q] = vdotq_lane_s32(sum[m][q], columns.first, bytes[m], 0);
    sum[m][q] = vdotq_lane_s32(sum[m][q], columns.next, bytes[m], 1);
  }
}

template <int kBits, int64_t kRows>
[[gnu::OCTET_DOTPROD]] void multiply_dotprod(const RowProductView& p, int64_t row, int64_t block) {
  const int8_t *w = block_of<kBits>(p, block), *x = signed_row(p, row);
  for (int64_t g = 0; g < p.groups; ++g, x += p.depth) {
    int32x4_t sum[kRows][kQuarters] = {};
    int8x8_t bytes[kRows];
    int64_t k = 0;
    for (; k + kStep <= p.depth; k += kStep, w += kStep * kBlockColumns * kBits / 8) {
#pragma GCC unroll 8
      for (int64_t m = 0; m < kRows; ++m) bytes[m] = vld1_s8(x + m * p.stride + k);
#pragma GCC unroll 8
      for (int64_t q = 0; q < kQuarters; ++q) add_dotprod(read_quarter<kBits>(w, q), q, bytes, sum);
    }
    if (k < p.depth) {
#pragma GCC unroll 8
      for (int64_t m = 0; m < kRows; ++m) bytes[m] = read_four(x + m * p.stride + k);
#pragma GCC unroll 8
      for (int64_t q = 0; q < kQuarters; ++q) add_dotprod(read_first(w, q), q, bytes, sum);
      w += kGroup * kBlockColumns;
    }
#pragma GCC unroll 8
    for (int64_t m = 0; m < kRows; ++m) finish_quarters(p, row + m, block, g, sum[m]);
  }
}

template <int kBits>
void few_rows_dotprod(const RowProductView& p, int64_t row, int64_t rows, int64_t block) {
  for (; rows >= 4; row += 4, rows -= 4) multiply_dotprod<kBits, 4>(p, row, block);
  for (; rows >= 2; row += 2, rows -= 2) multiply_dotprod<kBits, 2>(p, row, block);
  if (rows == 1) multiply_dotprod<kBits, 1>(p, row, block);
}

// ---- i8mm

template <int64_t kPairs>
[[gnu::always_inline, gnu::OCTET_I8MM]] inline void add_i8mm(
    Quarter columns, int64_t q, const int8x16_t (&bytes)[kPairs],
    int32x4_t (&sum)[kPairs][2 * kQuarters]) {
  const int32x4_t first = vreinterpretq_s32_s8(columns.first),
                  next = vreinterpretq_s32_s8(columns.next);
  const int8x16_t left = vreinterpretq_s8_s32(vzip1q_s32(first, next)),
                  right = vreinterpretq_s8_s32(vzip2q_s32(first, next));
#pragma GCC unroll 8
  for (int64_t i = 0; i < kPairs; ++i) {
    sum[i][2 * q] = vmmlaq_s32(sum[i][2 * q], bytes[i], left);
    sum[i][2 * q + 1] = vmmlaq_s32(sum[i][2 * q + 1], bytes[i], right);
  }
}

template <int kBits, int64_t kPairs>
[[gnu::OCTET_I8MM]] void multiply_i8mm(const RowProductView& p, int64_t row, int64_t block) {
  const int8_t *w = block_of<kBits>(p, block), *x = signed_row(p, row);
  for (int64_t g = 0; g < p.groups; ++g, x += p.depth) {
    int32x4_t sum[kPairs][2 * kQuarters] = {};  // of two rows and two columns
    int8x16_t bytes[kPairs];
    int64_t k = 0;
    for (; k + kStep <= p.depth; k += kStep, w += kStep * kBlockColumns * kBits / 8) {
#pragma GCC unroll 8
      for (int64_t i = 0; i < kPairs; ++i)
        bytes[i] =
            vcombine_s8(vld1_s8(x + 2 * i * p.stride + k), vld1_s8(x + (2 * i + 1) * p.stride + k));
#pragma GCC unroll 8
      for (int64_t q = 0; q < kQuarters; ++q) add_i8mm(read_quarter<kBits>(w, q), q, bytes, sum);
    }
    if (k < p.depth) {
#pragma GCC unroll 8
      for (int64_t i = 0; i < kPairs; ++i)
        bytes[i] = vcombine_s8(read_four(x + 2 * i * p.stride + k),
                               read_four(x + (2 * i + 1) * p.stride + k));
#pragma GCC unroll 8
      for (int64_t q = 0; q < kQuarters; ++q) add_i8mm(read_first(w, q), q, bytes, sum);
      w += kGroup * kBlockColumns;
    }
#pragma GCC unroll 8
    for (int64_t i = 0; i < kPairs; ++i) {
      int32x4_t upper[kQuarters], lower[kQuarters];
#pragma GCC unroll 8
      for (int64_t q = 0; q < kQuarters; ++q) {
        const int64x2_t left = vreinterpretq_s64_s32(sum[i][2 * q]),
                        right = vreinterpretq_s64_s32(sum[i][2 * q + 1]);
        upper[q] = vreinterpretq_s32_s64(vzip1q_s64(left, right));
        lower[q] = vreinterpretq_s32_s64(vzip2q_s64(left, right));
      }
      finish_quarters(p, row + 2 * i, block, g, upper);
      finish_quarters(p, row + 2 * i + 1, block, g, lower);
    }
  }
}

}  // namespace

template <int kBits>
void run_rows_neon(const RowProductView& p, int64_t row, int64_t rows, int64_t block,
                   int64_t blocks) {
  for (int64_t b = block; b < block + blocks; ++b) {
    int64_t m = row;
    for (; m + 2 <= row + rows; m += 2) multiply_neon<kBits, 2>(p, m, b);
    for (; m < row + rows; ++m) multiply_neon<kBits, 1>(p, m, b);
  }
}

template <int kBits>
void run_rows_dotprod(const RowProductView& p, int64_t row, int64_t rows, int64_t block,
                      int64_t blocks) {
  for (int64_t b = block; b < block + blocks; ++b) {
    int64_t m = row;
    for (; m + kTileRows <= row + rows; m += kTileRows) multiply_dotprod<kBits, kTileRows>(p, m, b);
    few_rows_dotprod<kBits>(p, m, row + rows - m, b);
  }
}

template <int kBits>
void run_rows_i8mm(const RowProductView& p, int64_t row, int64_t rows, int64_t block,
                   int64_t blocks) {
  for (int64_t b = block; b < block + blocks; ++b) {
    int64_t m = row;
    for (; m + kTileRows <= row + rows; m += kTileRows)
      multiply_i8mm<kBits, kTileRows / 2>(p, m, b);
    few_rows_dotprod<kBits>(p, m, row + rows - m, b);
  }
}

template void run_rows_neon<4>(const RowProductView&, int64_t, int64_t, int64_t, int64_t);
template void run_rows_neon<8>(const RowProductView&, int64_t, int64_t, int64_t, int64_t);
template void run_rows_dotprod<4>(const RowProductView&, int64_t, int64_t, int64_t, int64_t);
template void run_rows_dotprod<8>(const RowProductView&, int64_t, int64_t, int64_t, int64_t);
template void run_rows_i8mm<4>(const RowProductView&, int64_t, int64_t, int64_t, int64_t);
template void run_rows_i8mm<8>(const RowProductView&, int64_t, int64_t, int64_t, int64_t);

}  // namespace octet::xnnpack

#endif

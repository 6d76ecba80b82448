// A kernel sums the products of some rows with some blocks in registers; the scaling afterwards is
// common to all kernels. Loops over sums are unrolled explicitly: sums stay in registers only if no
// loop indexes them.
#include "backends/xnnpack/kernels/row_kernels.h"

#include <algorithm>
#include <cstring>

#include "backends/kernels/isa.h"
#include "backends/xnnpack/kernels/row_loops.h"
#include "backends/xnnpack/memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace octet::xnnpack {
namespace {

// ---- plain C++

bool always() { return true; }
#if defined(__aarch64__)
bool has_dotprod() { return may_use(Isa::kDotProduct); }
bool has_i8mm() { return may_use(Isa::kI8mm); }
#endif

void run_plain(const RowProductView& p, int64_t row, int64_t rows, int64_t block, int64_t blocks) {
  for (int64_t b = block; b < block + blocks; ++b)
    for (int64_t m = row; m < row + rows; ++m) {
      const int8_t* w = p.weights + b * p.depth * kBlockColumns;
      const int8_t* x = reinterpret_cast<const int8_t*>(p.rows) + m * p.stride;
      int32_t sum[kBlockColumns] = {};
      for (int64_t k = 0; k < p.depth; k += kGroup, w += kGroup * kBlockColumns)
        for (int64_t c = 0; c < kBlockColumns; ++c)
          for (int64_t i = 0; i < kGroup; ++i) sum[c] += x[k + i] * w[c * kGroup + i];
      finish(p, m, b, sum);
    }
}

#if defined(__x86_64__)

// ---- x86 with VNNI: one instruction adds four products of u8 and s8

#define OCTET_VNNI [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni" OCTET_WIDEST)]]

bool has_vnni() { return may_use(Isa::kAvx512Vnni); }

template <int64_t kRows, int64_t kBlocks>
OCTET_VNNI void multiply_vnni(const RowProductView& p, int64_t row, int64_t block) {
  const int64_t block_bytes = p.depth * kBlockColumns;
  const int8_t* w = p.weights + block * block_bytes;
  const uint8_t* x = p.rows + row * p.stride;
  __m512i sum[kRows][kBlocks] = {};
  for (int64_t k = 0; k < p.depth; k += kGroup) {
    __m512i column[kBlocks];
#pragma GCC unroll 8
    for (int64_t b = 0; b < kBlocks; ++b)
      column[b] = _mm512_loadu_si512(w + b * block_bytes + k * kBlockColumns);
#pragma GCC unroll 8
    for (int64_t m = 0; m < kRows; ++m) {
      const __m512i four = _mm512_set1_epi32(four_bytes(x + m * p.stride + k));
#pragma GCC unroll 8
      for (int64_t b = 0; b < kBlocks; ++b)
        sum[m][b] = _mm512_dpbusd_epi32(sum[m][b], four, column[b]);
    }
  }
#pragma GCC unroll 8
  for (int64_t m = 0; m < kRows; ++m)
#pragma GCC unroll 8
    for (int64_t b = 0; b < kBlocks; ++b) {
      alignas(64) int32_t sums[kBlockColumns];
      _mm512_store_si512(sums, sum[m][b]);
      finish(p, row + m, block + b, sums);
    }
}

template <int64_t kBlocks>
void rows_vnni(const RowProductView& p, int64_t row, int64_t rows, int64_t block) {
  for (; rows >= kTileRows; row += kTileRows, rows -= kTileRows)
    multiply_vnni<kTileRows, kBlocks>(p, row, block);
  for (; rows >= 2; row += 2, rows -= 2) multiply_vnni<2, kBlocks>(p, row, block);
  if (rows == 1) multiply_vnni<1, kBlocks>(p, row, block);
}

void run_vnni(const RowProductView& p, int64_t row, int64_t rows, int64_t block, int64_t blocks) {
  for (; blocks >= kTileBlocks; block += kTileBlocks, blocks -= kTileBlocks)
    rows_vnni<kTileBlocks>(p, row, rows, block);
  for (; blocks >= 2; block += 2, blocks -= 2) rows_vnni<2>(p, row, rows, block);
  for (; blocks > 0; ++block, --blocks) rows_vnni<1>(p, row, rows, block);
}
#undef OCTET_VNNI

// ---- x86 with pairs of 16-bit products (the instruction for bytes saturates)

#define OCTET_AVX2 [[gnu::target("avx2,fma")]]

bool has_avx2() { return may_use(Isa::kAvx2); }

template <int64_t kRows>
OCTET_AVX2 void multiply_avx2(const RowProductView& p, int64_t row, int64_t block) {
  constexpr int64_t kQuarters = 4;  // per block: four columns, each in two sums
  const int8_t* w = p.weights + block * p.depth * kBlockColumns;
  const uint8_t* x = p.rows + row * p.stride;
  __m256i sum[kRows][kQuarters] = {};
  for (int64_t k = 0; k < p.depth; k += kGroup, w += kGroup * kBlockColumns) {
    __m256i four[kRows];
#pragma GCC unroll 8
    for (int64_t m = 0; m < kRows; ++m)
      four[m] = _mm256_cvtepi8_epi16(_mm_set1_epi32(four_bytes(x + m * p.stride + k)));
#pragma GCC unroll 8
    for (int64_t q = 0; q < kQuarters; ++q) {
      const __m256i columns = _mm256_cvtepi8_epi16(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(w + q * kGroup * 4)));
#pragma GCC unroll 8
      for (int64_t m = 0; m < kRows; ++m)
        sum[m][q] = _mm256_add_epi32(sum[m][q], _mm256_madd_epi16(columns, four[m]));
    }
  }
#pragma GCC unroll 8
  for (int64_t m = 0; m < kRows; ++m) {
    alignas(32) int32_t sums[kBlockColumns];
#pragma GCC unroll 8
    for (int64_t half = 0; half < 2; ++half) {
      // columns 0 1 4 5 2 3 6 7
      const __m256i pairs = _mm256_hadd_epi32(sum[m][2 * half], sum[m][2 * half + 1]);
      _mm256_store_si256(reinterpret_cast<__m256i*>(sums + 8 * half),
                         _mm256_permute4x64_epi64(pairs, 0xd8));
    }
    finish(p, row + m, block, sums);
  }
}

void run_avx2_pairs(const RowProductView& p, int64_t row, int64_t rows, int64_t block,
                    int64_t blocks) {
  constexpr int64_t kRows = 3;
  for (int64_t b = block; b < block + blocks; ++b) {
    int64_t m = row;
    for (; m + kRows <= row + rows; m += kRows) multiply_avx2<kRows>(p, m, b);
    for (; m < row + rows; ++m) multiply_avx2<1>(p, m, b);
  }
}
#undef OCTET_AVX2

// ---- baseline x86: as above, half a block at a time, because there are 16 registers

// Sign-extends the lower or upper half of the bytes to 16 bits.
[[gnu::always_inline]] inline __m128i widened(__m128i bytes, bool is_upper) {
  const __m128i sign = _mm_cmpgt_epi8(_mm_setzero_si128(), bytes);
  return is_upper ? _mm_unpackhi_epi8(bytes, sign) : _mm_unpacklo_epi8(bytes, sign);
}

template <int64_t kRows>
void multiply_sse2(const RowProductView& p, int64_t row, int64_t block) {
  constexpr int64_t kPairs = 4;  // of columns, per half block
  const uint8_t* x = p.rows + row * p.stride;
  int32_t sums[kRows][kBlockColumns];
  for (int64_t half = 0; half < 2; ++half) {
    const int8_t* w =
        p.weights + block * p.depth * kBlockColumns + half * kGroup * kBlockColumns / 2;
    __m128i sum[kRows][kPairs] = {};
    for (int64_t k = 0; k < p.depth; k += kGroup, w += kGroup * kBlockColumns) {
      __m128i four[kRows];
#pragma GCC unroll 8
      for (int64_t m = 0; m < kRows; ++m)
        four[m] = widened(_mm_set1_epi32(four_bytes(x + m * p.stride + k)), false);
#pragma GCC unroll 8
      for (int64_t q = 0; q < kPairs; ++q) {
        const __m128i columns =
            widened(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w) + q / 2), q % 2 != 0);
#pragma GCC unroll 8
        for (int64_t m = 0; m < kRows; ++m)
          sum[m][q] = _mm_add_epi32(sum[m][q], _mm_madd_epi16(columns, four[m]));
      }
    }
#pragma GCC unroll 8
    for (int64_t m = 0; m < kRows; ++m)
#pragma GCC unroll 8
      for (int64_t q = 0; q < kPairs; ++q) {
        alignas(16) int32_t parts[4];
        _mm_store_si128(reinterpret_cast<__m128i*>(parts), sum[m][q]);
        sums[m][8 * half + 2 * q] = parts[0] + parts[1];
        sums[m][8 * half + 2 * q + 1] = parts[2] + parts[3];
      }
  }
  for (int64_t m = 0; m < kRows; ++m) finish(p, row + m, block, sums[m]);
}

void run_sse2(const RowProductView& p, int64_t row, int64_t rows, int64_t block, int64_t blocks) {
  for (int64_t b = block; b < block + blocks; ++b) {
    int64_t m = row;
    for (; m + 2 <= row + rows; m += 2) multiply_sse2<2>(p, m, b);
    for (; m < row + rows; ++m) multiply_sse2<1>(p, m, b);
  }
}

#endif

constexpr RowKernel kKernels[] = {
#if defined(__x86_64__)
    {"AVX-512 VNNI", has_vnni, 0, run_vnni},
    {"AVX2", has_avx2, -128, run_avx2_pairs},
    {"SSE2", always, -128, run_sse2},
#elif defined(__aarch64__)
    {"i8mm", has_i8mm, -128, run_rows_i8mm<8>, run_rows_i8mm<8>, run_rows_i8mm<4>},
    {"dotprod", has_dotprod, -128, run_rows_dotprod<8>, run_rows_dotprod<8>, run_rows_dotprod<4>},
    {"NEON", always, -128, run_rows_neon<8>, run_rows_neon<8>, run_rows_neon<4>},
#endif
    {"plain", always, -128, run_plain},
};

}  // namespace

std::span<const RowKernel> row_kernels() { return kKernels; }

const RowKernel& best_row_kernel() {
  static const RowKernel& best =
      *std::find_if(std::begin(kKernels), std::end(kKernels),
                    [](const RowKernel& kernel) { return kernel.is_here(); });
  return best;
}

// Pads columns and elements with zeros.
PackedColumns pack_columns(const int8_t* from, int64_t out, int64_t in, int64_t depth) {
  const int64_t columns = (out + kBlockColumns - 1) / kBlockColumns * kBlockColumns,
                bytes = columns * depth;
  const xnn_allocator& memory = *memory_source();
  void* const block = memory.aligned_allocate(memory.context, 64, static_cast<size_t>(bytes));
  if (block == nullptr) throw std::bad_alloc();
  PackedColumns packed;
  packed.weights = {static_cast<int8_t*>(block),
                    [&memory](int8_t* p) { memory.aligned_deallocate(memory.context, p); }};
  packed.sums.resize(static_cast<size_t>(columns));
  if (out % kBlockColumns != 0 || in % kGroup != 0)
    std::memset(packed.weights.get(), 0, static_cast<size_t>(bytes));
  for (int64_t n = 0; n < out; ++n) {
    const int8_t* row = from + n * in;
    int8_t* to = packed.weights.get() + n / kBlockColumns * kBlockColumns * depth +
                 n % kBlockColumns * kGroup;
    for (int64_t k = 0; k + kGroup <= in; k += kGroup)
      std::memcpy(to + k * kBlockColumns, row + k, kGroup);
    const int64_t left = in % kGroup;
    std::memcpy(to + (in - left) * kBlockColumns, row + in - left, static_cast<size_t>(left));
    int32_t sum = 0;
    for (int64_t k = 0; k < in; ++k) sum += row[k];
    packed.sums[static_cast<size_t>(n)] = sum;
  }
  return packed;
}

}  // namespace octet::xnnpack

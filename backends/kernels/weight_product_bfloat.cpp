// Weight-only products of many rows in bfloat16: both factors are rounded to bfloat16, an
// instruction adds the products of two inputs to each of 16 sums, and sums are float32.
#include "backends/kernels/weight_blocks.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace octet {

#if defined(__x86_64__)

#define OCTET_BFLOAT [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16" OCTET_WIDEST)]]

namespace {

constexpr int64_t kBfloatLanes = 16, kWidth = kPanel * kBfloatLanes;

// Two neighboring inputs of 16 outputs: [outputs, 2] of bfloat16.
OCTET_BFLOAT inline __m512i pairs(__m512 even, __m512 odd) {
  const __m512i low = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(even)));
  const __m512i high = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(odd)));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

// y[rows, vectors] = from + x[rows, depth] * weights[depth / 2, vectors, 16, 2].
template <int64_t kRows, int64_t kVectors>
OCTET_BFLOAT inline void add_bfloat_tile(const uint16_t* x, int64_t x_step, const __m512i* weights,
                                         const float* from, int64_t from_step, float* y,
                                         int64_t y_step, int64_t depth) {
  __m512 sums[kRows][kVectors];
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < kVectors; ++v)
      sums[r][v] = _mm512_loadu_ps(from + r * from_step + v * kBfloatLanes);
  for (int64_t d = 0; d < depth; d += 2, weights += kPanel) {
    for (int64_t r = 0; r < kRows; ++r) {
      int32_t two = 0;
      std::memcpy(&two, x + r * x_step + d, sizeof(two));
      const __m512bh inputs = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
      for (int64_t v = 0; v < kVectors; ++v)
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], reinterpret_cast<__m512bh>(weights[v]), inputs);
    }
  }
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < kVectors; ++v)
      _mm512_storeu_ps(y + r * y_step + v * kBfloatLanes, sums[r][v]);
}

// As above for the first `count` outputs of a panel.
template <int64_t kRows>
OCTET_BFLOAT inline void multiply_tile(const uint16_t* x, int64_t x_step, const __m512i* weights,
                                       const float* from, int64_t from_step, float* y,
                                       int64_t y_step, int64_t count, int64_t depth) {
  if (count == kWidth)
    return add_bfloat_tile<kRows, kPanel>(x, x_step, weights, from, from_step, y, y_step, depth);
  float some[kRows * kWidth] = {};
  for (int64_t r = 0; r < kRows; ++r) std::copy_n(from + r * from_step, count, some + r * kWidth);
  add_bfloat_tile<kRows, kPanel>(x, x_step, weights, some, kWidth, some, kWidth, depth);
  for (int64_t r = 0; r < kRows; ++r) std::copy_n(some + r * kWidth, count, y + r * y_step);
}

template <int kBits>
OCTET_BFLOAT void multiply_panels(const WeightProduct& p, const WeightArguments& a,
                                  const uint16_t* x, int64_t first, int64_t last) {
  alignas(64) float floats[kBlockDepth * kWidth];
  alignas(64) __m512i weights[kBlockDepth / 2 * kPanel];
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t begin = panel * kWidth, count = std::min(kWidth, p.out - begin);
    for (Block block = block_at(p, 0); block.inputs > 0; block = block_at(p, block.end)) {
      for (int64_t c = 0; c < count; c += kBfloatLanes)
        expand<kBits, kBfloatLanes>(p, a, (begin + c) / kBfloatLanes, block, floats + c, kWidth);
      for (int64_t d = 0; d < block.inputs; d += 2)
        for (int64_t v = 0; v < divide_up(count, kBfloatLanes); ++v)
          weights[d / 2 * kPanel + v] =
              pairs(_mm512_load_ps(floats + d * kWidth + v * kBfloatLanes),
                    _mm512_load_ps(floats + (d + 1) * kWidth + v * kBfloatLanes));
      const float* from = a.bias + begin;
      const int64_t from_step = block.word == 0 ? 0 : p.out;
      int64_t m = 0;
      for (; m + 8 <= p.rows; m += 8) {
        float* const y = a.y + m * p.out + begin;
        multiply_tile<8>(x + m * p.in + block.input, p.in, weights, from_step == 0 ? from : y,
                         from_step, y, p.out, count, block.inputs);
      }
      for (; m < p.rows; ++m) {
        float* const y = a.y + m * p.out + begin;
        multiply_tile<1>(x + m * p.in + block.input, p.in, weights, from_step == 0 ? from : y,
                         from_step, y, p.out, count, block.inputs);
      }
    }
  }
}

OCTET_BFLOAT void round_values(const float* x, int64_t count, uint16_t* to) {
  for (int64_t i = 0; i < count; i += kBfloatLanes) {
    const __mmask16 mask =
        static_cast<__mmask16>(count - i >= kBfloatLanes ? 0xffff : (1 << (count - i)) - 1);
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i));
    _mm256_mask_storeu_epi16(to + i, mask, reinterpret_cast<__m256i>(rounded));
  }
}

}  // namespace

bool has_bfloat_product(const WeightProduct& p) {
  return may_use(Isa::kAvx512Bf16) && p.in / p.groups % 2 == 0;
}

void round_to_bfloat(const WeightProduct& p, const float* x, uint16_t* to) {
  round_values(x, p.rows * p.in, to);
}

void multiply_bfloat_panels(const WeightProduct& p, const WeightArguments& a, const uint16_t* x,
                            int64_t first, int64_t last) {
  p.bits == 4 ? multiply_panels<4>(p, a, x, first, last) : multiply_panels<8>(p, a, x, first, last);
}

#else

bool has_bfloat_product(const WeightProduct&) { return false; }
void round_to_bfloat(const WeightProduct&, const float*, uint16_t*) {}
void multiply_bfloat_panels(const WeightProduct&, const WeightArguments&, const uint16_t*, int64_t,
                            int64_t) {}

#endif

}  // namespace octet

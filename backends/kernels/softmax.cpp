// Three passes over a row, which stays in the L1 cache: the maximum, then exponentials and their
// sum, then the scaling (the usual numerically stable softmax).
#include "backends/kernels/softmax.h"

#include <algorithm>
#include <cmath>

#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"
#include "core/base/shape.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace octet {
namespace {

// A row of contiguous elements. For a row of -inf, a masked softmax uses e^x itself, which is 0.
[[gnu::always_inline]] inline void softmax_of_row(const float* x, float* y, int64_t size,
                                                  bool is_masked) {
  const int64_t whole = size / kRowLanes * kRowLanes;
  float greatest[kRowLanes], sums[kRowLanes] = {};
  std::fill_n(greatest, kRowLanes, kLowest);
  for (int64_t i = 0; i < whole; i += kRowLanes)
    for (int64_t k = 0; k < kRowLanes; ++k)
      greatest[k] = greatest[k] < x[i + k] ? x[i + k] : greatest[k];
  float most = greatest_of_lanes(greatest);
  for (int64_t i = whole; i < size; ++i) most = most < x[i] ? x[i] : most;
  const bool is_hidden = is_masked && most == kLowest;
  most = is_hidden ? 0 : most;
  for (int64_t i = 0; i < whole; i += kRowLanes) {
    float e[kRowLanes];
    for (int64_t k = 0; k < kRowLanes; ++k) e[k] = falling_exponential(x[i + k] - most);
    for (int64_t k = 0; k < kRowLanes; ++k) sums[k] += y[i + k] = e[k];
  }
  float sum = sum_of_lanes(sums);
  for (int64_t i = whole; i < size; ++i) sum += y[i] = falling_exponential(x[i] - most);
  const float factor = is_hidden ? 0 : 1 / sum;
  for (int64_t i = 0; i < size; ++i) y[i] *= factor;
}

// `columns` neighboring rows, at most kRowLanes, with elements `step` apart.
[[gnu::always_inline]] inline void softmax_of_columns(const float* x, float* y, int64_t size,
                                                      int64_t step, int64_t columns,
                                                      bool is_masked) {
  float greatest[kRowLanes], sums[kRowLanes] = {};
  std::fill_n(greatest, kRowLanes, kLowest);
  for (int64_t i = 0; i < size; ++i)
    for (int64_t c = 0; c < columns; ++c)
      greatest[c] = greatest[c] < x[i * step + c] ? x[i * step + c] : greatest[c];
  bool is_hidden[kRowLanes];
  for (int64_t c = 0; c < kRowLanes; ++c) {
    is_hidden[c] = is_masked && greatest[c] == kLowest;
    greatest[c] = is_hidden[c] ? 0 : greatest[c];
  }
  for (int64_t i = 0; i < size; ++i) {
    float e[kRowLanes];
    for (int64_t c = 0; c < columns; ++c) e[c] = falling_exponential(x[i * step + c] - greatest[c]);
    for (int64_t c = 0; c < columns; ++c) sums[c] += y[i * step + c] = e[c];
  }
  for (int64_t c = 0; c < kRowLanes; ++c) sums[c] = is_hidden[c] ? 0 : 1 / sums[c];
  for (int64_t i = 0; i < size; ++i)
    for (int64_t c = 0; c < columns; ++c) y[i * step + c] *= sums[c];
}

#if defined(__x86_64__)

#define OCTET_AVX512 gnu::target("avx512f,avx512bw,avx512dq,avx512vl" OCTET_WIDEST)

// e^x for x <= 0 within two units of the last place; 0 below -87.
[[OCTET_AVX512, gnu::always_inline]] inline __m512 falling_exponential(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.0f / 720);
  for (const float coefficient : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(coefficient));
  const __mmask16 vanishes = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_LT_OQ);
  return _mm512_mask_mov_ps(_mm512_scalef_ps(p, n), vanishes, _mm512_setzero_ps());
}

// As softmax_of_row, in half the time for short rows: masks handle the end of a row.
[[OCTET_AVX512]] void softmax_avx512(const float* x, float* y, int64_t size, bool is_masked) {
  constexpr int64_t kFloats = 16;
  const int64_t whole = size / kFloats * kFloats;
  const __mmask16 tail = static_cast<__mmask16>((1U << (size - whole)) - 1);
  __m512 most = _mm512_mask_loadu_ps(_mm512_set1_ps(kLowest), tail, x + whole);
  for (int64_t i = 0; i < whole; i += kFloats) most = _mm512_max_ps(_mm512_loadu_ps(x + i), most);
  const float greatest = _mm512_reduce_max_ps(most);
  const bool is_hidden = is_masked && greatest == kLowest;
  const __m512 shift = _mm512_set1_ps(is_hidden ? 0 : greatest);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < whole; i += kFloats) {
    const __m512 e = falling_exponential(_mm512_sub_ps(_mm512_loadu_ps(x + i), shift));
    _mm512_storeu_ps(y + i, e);
    sum = _mm512_add_ps(sum, e);
  }
  const __m512 last =
      falling_exponential(_mm512_sub_ps(_mm512_maskz_loadu_ps(tail, x + whole), shift));
  sum = _mm512_mask_add_ps(sum, tail, sum, last);
  const __m512 factor = _mm512_set1_ps(is_hidden ? 0 : 1.0f / _mm512_reduce_add_ps(sum));
  for (int64_t i = 0; i < whole; i += kFloats)
    _mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_loadu_ps(y + i), factor));
  _mm512_mask_storeu_ps(y + whole, tail, _mm512_mul_ps(last, factor));
}

#endif

void softmax_of_rows(const float* x, float* y, int64_t rows, int64_t size, bool is_masked) {
#if defined(__x86_64__)
  if (may_use(Isa::kAvx512)) {
    for (int64_t row = 0; row < rows; ++row)
      softmax_avx512(x + row * size, y + row * size, size, is_masked);
    return;
  }
#endif
  run_vectorized([=]() __attribute__((always_inline)) {
    for (int64_t row = 0; row < rows; ++row)
      softmax_of_row(x + row * size, y + row * size, size, is_masked);
  });
}

void softmax_of_bytes(const ByteSoftmax& s, const int8_t* from, int8_t* to) {
  int greatest = -128;
  for (int64_t i = 0; i < s.size; ++i) greatest = std::max<int>(greatest, from[i * s.from_step]);
  double sum = 0;
  for (int64_t i = 0; i < s.size; ++i)
    sum += s.exponentials[static_cast<size_t>(greatest - from[i * s.from_step])];
  const double factor = s.inverse_scale / sum;
  for (int64_t i = 0; i < s.size; ++i) {
    const double step =
        std::nearbyint(s.exponentials[static_cast<size_t>(greatest - from[i * s.from_step])] *
                       factor) +
        s.zero_point;
    to[i * s.to_step] = static_cast<int8_t>(std::clamp(step, -128.0, 127.0));
  }
}

int64_t offset_of(int64_t row, const std::vector<int64_t>& shape,
                  const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t d = shape.size(); d-- > 0; row /= shape[d]) offset += row % shape[d] * strides[d];
  return offset;
}

}  // namespace

void FloatSoftmax::run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
                       const Parallel& parallel) const {
  const float* const x = reinterpret_cast<const float*>(from[0]);
  float* const y = reinterpret_cast<float*>(to);
  if (inner == 1)
    return parallel(outer, 4 * size, [&](int64_t first, int64_t last) {
      softmax_of_rows(x + first * size, y + first * size, last - first, size, is_masked);
    });
  const int64_t blocks = (inner + kRowLanes - 1) / kRowLanes, plane = size * inner;
  parallel(outer * blocks, 4 * size * kRowLanes, [&](int64_t first, int64_t last) {
    run_vectorized([=, this]() __attribute__((always_inline)) {
      for (int64_t part = first; part < last; ++part) {
        const int64_t column = part % blocks * kRowLanes, offset = part / blocks * plane + column;
        softmax_of_columns(x + offset, y + offset, size, inner,
                           inner - column < kRowLanes ? inner - column : kRowLanes, is_masked);
      }
    });
  });
}

ByteSoftmax::ByteSoftmax(float input_scale, float output_scale, int32_t output_zero_point)
    : inverse_scale(1 / double{output_scale}), zero_point(output_zero_point) {
  for (size_t below = 0; below < exponentials.size(); ++below)
    exponentials[below] = std::exp(-double{input_scale} * static_cast<double>(below));
}

void ByteSoftmax::run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
                      const Parallel& parallel) const {
  parallel(product(shape), 4 * size, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      softmax_of_bytes(
          *this, reinterpret_cast<const int8_t*>(from[0]) + offset_of(row, shape, from_strides),
          reinterpret_cast<int8_t*>(to) + offset_of(row, shape, to_strides));
  });
}

}  // namespace octet

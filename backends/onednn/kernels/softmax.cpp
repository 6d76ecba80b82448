// Softmax of rows of floats: the largest element, then exponentials and their sum, then
// the scaling. Short rows stay in the first-level cache.
#include "backends/onednn/kernels/softmax.h"

#include <cmath>

#include "backends/common/float_functions.h"
#include "backends/common/lanes.h"
#include "backends/onednn/kernels/isa.h"
#include "backends/onednn/kernels/vnni.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

#if defined(__x86_64__)

// e^x for x <= 0 within two units of the last place; 0 below the smallest normal number.
OCTET_VNNI_INLINE __m512 exponential(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.0f / 720);
  for (const float coefficient : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(coefficient));
  const __mmask16 vanishes = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_LT_OQ);
  return _mm512_mask_mov_ps(_mm512_scalef_ps(p, n), vanishes, _mm512_setzero_ps());
}

template <bool kMasked>
OCTET_VNNI void softmax_row(const float* x, float* y, int64_t width) {
  const int64_t whole = width / kLanes * kLanes;
  const __mmask16 tail = static_cast<__mmask16>((1U << (width - whole)) - 1);
  const __m512 lowest = _mm512_set1_ps(-INFINITY);
  __m512 most = _mm512_mask_loadu_ps(lowest, tail, x + whole);
  for (int64_t i = 0; i < whole; i += kLanes) most = _mm512_max_ps(_mm512_loadu_ps(x + i), most);
  const float greatest = _mm512_reduce_max_ps(most);
  if (kMasked && greatest == -INFINITY) {
    for (int64_t i = 0; i < width; ++i) y[i] = 0;
    return;
  }
  const __m512 shift = _mm512_set1_ps(greatest);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < whole; i += kLanes) {
    const __m512 e = exponential(_mm512_sub_ps(_mm512_loadu_ps(x + i), shift));
    _mm512_storeu_ps(y + i, e);
    sum = _mm512_add_ps(sum, e);
  }
  const __m512 last = exponential(_mm512_sub_ps(_mm512_maskz_loadu_ps(tail, x + whole), shift));
  sum = _mm512_mask_add_ps(sum, tail, sum, last);
  const __m512 factor = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(sum));
  for (int64_t i = 0; i < whole; i += kLanes)
    _mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_loadu_ps(y + i), factor));
  _mm512_mask_storeu_ps(y + whole, tail, _mm512_mul_ps(last, factor));
}

#else

template <bool kMasked>
void softmax_row(const float*, float*, int64_t) {}

#endif

template <bool kMasked>
Loop rows_loop(int64_t rows, int64_t width) {
  return [=](std::byte* const* arguments) {
    for_parts(rows, 4 * width, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row)
        softmax_row<kMasked>(reinterpret_cast<const float*>(arguments[0]) + row * width,
                             reinterpret_cast<float*>(arguments[1]) + row * width, width);
    });
  };
}

// What compilers make vector instructions of, for the other CPUs.
[[gnu::always_inline]] inline void masked_row(const float* x, float* y, int64_t width) {
  float greatest = -INFINITY;
  for (int64_t i = 0; i < width; ++i) greatest = greatest < x[i] ? x[i] : greatest;
  if (greatest == -INFINITY) {
    for (int64_t i = 0; i < width; ++i) y[i] = 0;
    return;
  }
  constexpr int64_t kSums = 16;
  const int64_t whole = width / kSums * kSums;
  float sums[kSums] = {};
  for (int64_t i = 0; i < whole; i += kSums)
    for (int64_t k = 0; k < kSums; ++k)
      sums[k] += y[i + k] = octet::exponential(x[i + k] - greatest);
  float sum = sum_of_lanes(sums);
  for (int64_t i = whole; i < width; ++i) sum += y[i] = octet::exponential(x[i] - greatest);
  const float factor = 1 / sum;
  for (int64_t i = 0; i < width; ++i) y[i] *= factor;
}

}  // namespace

bool has_softmax_kernel() { return has_vnni(); }

Loop softmax_loop(int64_t rows, int64_t width) {
  OCTET_ASSERT(has_softmax_kernel(), "a CPU that the kernel is not for");
  return rows_loop<false>(rows, width);
}

Loop masked_softmax_loop(int64_t rows, int64_t width) {
  if (has_softmax_kernel()) return rows_loop<true>(rows, width);
  return [=](std::byte* const* arguments) {
    const float* x = reinterpret_cast<const float*>(arguments[0]);
    float* y = reinterpret_cast<float*>(arguments[1]);
    for_parts(rows, 4 * width, [&](int64_t first, int64_t last) {
      run_vectorised([&]() __attribute__((always_inline)) {
        for (int64_t row = first; row < last; ++row)
          masked_row(x + row * width, y + row * width, width);
      });
    });
  };
}

}  // namespace octet::onednn

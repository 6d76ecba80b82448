// Softmax of rows of floats for AVX-512: the largest element, then exponentials and their sum, then
// the scaling. Short rows stay in the first-level cache.
#include "backends/onednn/kernels/softmax.h"

#include <cmath>

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

OCTET_VNNI void softmax_row(const float* x, float* y, int64_t width) {
  const int64_t whole = width / kLanes * kLanes;
  const __mmask16 tail = static_cast<__mmask16>((1U << (width - whole)) - 1);
  const __m512 lowest = _mm512_set1_ps(-INFINITY);
  __m512 most = _mm512_mask_loadu_ps(lowest, tail, x + whole);
  for (int64_t i = 0; i < whole; i += kLanes) most = _mm512_max_ps(_mm512_loadu_ps(x + i), most);
  const __m512 shift = _mm512_set1_ps(_mm512_reduce_max_ps(most));
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

void softmax_row(const float*, float*, int64_t) {}

#endif

}  // namespace

bool has_softmax_kernel() { return has_vnni(); }

Loop softmax_loop(int64_t rows, int64_t width) {
  OCTET_ASSERT(has_softmax_kernel(), "a CPU that the kernel is not for");
  return [=](std::byte* const* arguments) {
    for_parts(rows, 4 * width, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row)
        softmax_row(reinterpret_cast<const float*>(arguments[0]) + row * width,
                    reinterpret_cast<float*>(arguments[1]) + row * width, width);
    });
  };
}

}  // namespace octet::onednn

// Each row twice, the second time from the first-level cache; bytes are made of a few elements at a
// time.
#include "backends/onednn/kernels/rms_norm.h"

#include <cmath>

#include "backends/common/lanes.h"
#include "backends/onednn/kernels/isa.h"
#include "backends/onednn/kernels/quantize_row.h"

namespace octet::onednn {
namespace {

[[gnu::always_inline]] inline float inverse_rms(const float* x, int64_t width, double eps) {
  constexpr int64_t kSums = 32;
  const int64_t whole = width / kSums * kSums;
  float sums[kSums] = {};
  for (int64_t i = 0; i < whole; i += kSums)
    for (int64_t k = 0; k < kSums; ++k) sums[k] += x[i + k] * x[i + k];
  double sum = double{sum_of_lanes(sums)};
  for (int64_t i = whole; i < width; ++i) sum += double{x[i]} * double{x[i]};
  return static_cast<float>(1 / std::sqrt(sum / static_cast<double>(width) + eps));
}

[[gnu::always_inline]] inline void scale_row(const float* x, const float* weight, float inverse,
                                             float* y, int64_t width) {
  for (int64_t i = 0; i < width; ++i) y[i] = x[i] * inverse * weight[i];
}

template <typename Y>
[[gnu::always_inline]] inline void scale_row(const float* x, const float* weight, float inverse,
                                             Y* __restrict y, int64_t width, QuantizeRow p) {
  constexpr int64_t kBlock = 256;
  float reals[kBlock];
  for (int64_t first = 0; first < width; first += kBlock) {
    const int64_t count = width - first < kBlock ? width - first : kBlock;
    scale_row(x + first, weight + first, inverse, reals, count);
    quantize_row(reals, y + first, count, p);
  }
}

}  // namespace

Loop rms_norm_loop(int64_t rows, int64_t width, double eps, const QuantParams& to) {
  const QuantizeRow p = to.is_integer() ? quantize_row_of(to) : QuantizeRow{};
  return [=](std::byte* const* arguments) {
    const float* x = reinterpret_cast<const float*>(arguments[0]);
    const float* weight = reinterpret_cast<const float*>(arguments[1]);
    for_parts(rows, width, [&](int64_t first, int64_t last) {
      run_vectorised([&]() __attribute__((always_inline)) {
        for (int64_t row = first; row < last; ++row) {
          const float* from = x + row * width;
          const float inverse = inverse_rms(from, width, eps);
          if (to.type == ElementType::u8) {
            scale_row(from, weight, inverse, reinterpret_cast<uint8_t*>(arguments[2]) + row * width,
                      width, p);
          } else if (to.type == ElementType::s8) {
            scale_row(from, weight, inverse, reinterpret_cast<int8_t*>(arguments[2]) + row * width,
                      width, p);
          } else {
            scale_row(from, weight, inverse, reinterpret_cast<float*>(arguments[2]) + row * width,
                      width);
          }
        }
      });
    });
  };
}

}  // namespace octet::onednn

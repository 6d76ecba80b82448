// Floats to bytes with one scale and zero point: the inner loop of whatever quantizes.
#pragma once

#include <cstdint>

#include "backends/onednn/form.h"

namespace octet::onednn {

// Adding and subtracting 1.5 * 2^23 rounds half to even for |x| < 2^22; every caller clamps first.
inline constexpr float kRounder = 12582912.0f;

struct QuantizeRow {
  float inverse_scale;
  float low, high;  // without the zero point
  int zero_point;
};

inline QuantizeRow quantize_row_of(const QuantParams& y, int low, int high) {
  return {1.0f / y.scale, static_cast<float>(low - y.zero_point),
          static_cast<float>(high - y.zero_point), y.zero_point};
}
inline QuantizeRow quantize_row_of(const QuantParams& y) {
  return quantize_row_of(y, y.lowest(), y.highest());
}

template <typename Y>
[[gnu::always_inline]] inline void quantize_row(const float* x, Y* y, int64_t count,
                                                const QuantizeRow& p) {
  for (int64_t i = 0; i < count; ++i) {
    float v = x[i] * p.inverse_scale;
    v = v < p.low ? p.low : v;
    v = v > p.high ? p.high : v;
    y[i] = static_cast<Y>(static_cast<int>((v + kRounder) - kRounder) + p.zero_point);
  }
}

}  // namespace octet::onednn

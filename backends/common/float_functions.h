// Exponential, tanh and erf of floats by polynomials, without branches and calls: loops over them
// become vector instructions. Each lies within a few units of the last place of the exact value
// (erf: within 4e-7 of it, absolutely). NaNs stay NaNs; infinities give the limits.
#pragma once

#include <bit>
#include <cstdint>

namespace octet {

// 2^n for n from -126 to 127.
[[gnu::always_inline]] inline float power_of_two(int32_t n) {
  return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

// e^x; infinity from 88.73 on, 0 below -104.
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float kRounder = 12582912.0f;  // adding it leaves whole numbers
  constexpr float kLog2E = 1.44269504f, kLn2 = 0.693359375f, kLn2Rest = -2.12194440e-4f;
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = x * kLog2E + kRounder;
  const float whole = shifted - kRounder;
  const int32_t n =
      static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRounder));
  const float r = (x - whole * kLn2) - whole * kLn2Rest;
  float p = 1.38367387e-3f;
  p = p * r + 8.37489869e-3f;
  p = p * r + 4.16682325e-2f;
  p = p * r + 1.66664198e-1f;
  p = p * r + 4.99999911e-1f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // in two factors, as 2^n may lie outside of the normal numbers
  const int32_t half = n >> 1;
  return p * power_of_two(half) * power_of_two(n - half);
}

[[gnu::always_inline]] inline float hyperbolic_tangent(float x) {
  const float square = x * x;
  float p = -5.60273649e-3f;
  p = p * square + 2.05399357e-2f;
  p = p * square + -5.37053198e-2f;
  p = p * square + 1.33309320e-1f;
  p = p * square + -3.33332509e-1f;
  const float near = x + x * square * p;
  const float size = x < 0 ? -x : x;
  const float far = 1.0f - 2.0f / (exponential(2.0f * size) + 1.0f);
  return size < 0.625f ? near : x < 0 ? -far : far;
}

// The error function.
[[gnu::always_inline]] inline float error_function(float x) {
  constexpr float kEnd = 3.92f;  // from here on 1, to within rounding
  const float square = x * x;
  float p = 2.05004017e-6f;
  p = p * square + 2.84871086e-4f;
  p = p * square + 3.76538117e-3f;
  p = p * square + 5.27479835e-2f;
  p = p * square + 1.90401837e-1f;
  p = p * square + 1.12837911f;
  float q = 3.80906167e-5f;
  q = q * square + 1.16246636e-3f;
  q = q * square + 1.49687529e-2f;
  q = q * square + 1.14107080e-1f;
  q = q * square + 5.02071977e-1f;
  q = q * square + 1.0f;
  float y = x * p / q;
  y = x >= kEnd ? 1.0f : y;
  y = x <= -kEnd ? -1.0f : y;
  y = y > 1.0f ? 1.0f : y;
  return y < -1.0f ? -1.0f : y;
}

}  // namespace octet

// Scalar arithmetic that compilers vectorize when a loop calls it: functions of floats, reductions
// of lanes, rounding to bytes.
//
// The functions have no branches or calls. exponential and hyperbolic_tangent are structured like
// Cephes' expf and tanhf (range reduction, then a polynomial), error_function like Eigen's (a ratio
// of polynomials). They are accurate to a few units in the last place (error_function: to 4e-7,
// absolute). NaN stays NaN; infinities give the limits.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace octet {

// 2^n for n from -126 to 127.
[[gnu::always_inline]] inline float power_of_two(int32_t n) {
  return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

// Adding and subtracting this rounds a float of magnitude below 2^22 to the nearest integer, ties
// to even: the sum has no bits left for a fraction.
inline constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23

inline constexpr float kLowest = -std::numeric_limits<float>::infinity();

// A polynomial in x by Horner's method; the coefficient of the highest power comes first.
template <typename... Coefficients>
[[gnu::always_inline]] inline float polynomial(float x, float first, Coefficients... others) {
  ((first = first * x + others), ...);
  return first;
}

// e^x = factor * 2^power, where factor is in [1/sqrt(2), sqrt(2)]: power = round(x / ln 2), and
// factor = e^r for the rest r, which a polynomial approximates. ln 2 is split into two constants so
// that r loses few bits (Cody and Waite, "Software Manual for the Elementary Functions", 1980).
struct Exponent {
  float factor;
  int32_t power;
};
[[gnu::always_inline]] inline Exponent split_exponent(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2 = 0.693359375f, kLn2Rest = -2.12194440e-4f;
  const float shifted = x * kLog2E + kRounder;
  const float whole = shifted - kRounder;
  const int32_t n =
      static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRounder));
  const float r = (x - whole * kLn2) - whole * kLn2Rest;
  const float p = polynomial(r, 1.38367387e-3f, 8.37489869e-3f, 4.16682325e-2f, 1.66664198e-1f,
                             4.99999911e-1f, 1.0f, 1.0f);
  return {p, n};
}

// e^x; infinity from 88.73 on, 0 below -104.
[[gnu::always_inline]] inline float exponential(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const Exponent e = split_exponent(x);
  // in two factors, since 2^power may be outside the range of normal numbers
  const int32_t half = e.power >> 1;
  return e.factor * power_of_two(half) * power_of_two(e.power - half);
}

// As exponential for x <= 0, faster; 0 below -87, close to the smallest normal number.
[[gnu::always_inline]] inline float falling_exponential(float x) {
  const Exponent e = split_exponent(x);
  const float y = e.factor * power_of_two(e.power);
  return x < -87.0f ? 0.0f : y;
}

[[gnu::always_inline]] inline float hyperbolic_tangent(float x) {
  const float square = x * x;
  const float p = polynomial(square, -5.60273649e-3f, 2.05399357e-2f, -5.37053198e-2f,
                             1.33309320e-1f, -3.33332509e-1f);
  const float near = x + x * square * p;
  const float size = x < 0 ? -x : x;
  const float far = 1.0f - 2.0f / (exponential(2.0f * size) + 1.0f);
  return size < 0.625f ? near : x < 0 ? -far : far;
}

// The error function.
[[gnu::always_inline]] inline float error_function(float x) {
  constexpr float kEnd = 3.92f;  // from here on the result rounds to 1
  const float square = x * x;
  const float p = polynomial(square, 2.05004017e-6f, 2.84871086e-4f, 3.76538117e-3f, 5.27479835e-2f,
                             1.90401837e-1f, 1.12837911f);
  const float q = polynomial(square, 3.80906167e-5f, 1.16246636e-3f, 1.49687529e-2f, 1.14107080e-1f,
                             5.02071977e-1f, 1.0f);
  float y = x * p / q;
  y = x >= kEnd ? 1.0f : y;
  y = x <= -kEnd ? -1.0f : y;
  y = y > 1.0f ? 1.0f : y;
  return y < -1.0f ? -1.0f : y;
}

[[gnu::always_inline]] inline float logistic(float x) { return 1.0f / (1.0f + exponential(-x)); }

// min(max(x + 3, 0), 6) / 6.
[[gnu::always_inline]] inline float hard_logistic(float x) {
  float y = x + 3.0f;
  y = y < 0.0f ? 0.0f : y;
  y = y > 6.0f ? 6.0f : y;
  return y * (1.0f / 6.0f);
}

[[gnu::always_inline]] inline float gelu_by_erf(float x) {
  constexpr float kInverseRoot2 = 0.707106781f;
  return 0.5f * x * (1.0f + error_function(x * kInverseRoot2));
}

[[gnu::always_inline]] inline float gelu_by_tanh(float x) {
  constexpr float kRoot2OverPi = 0.797884561f;
  return 0.5f * x * (1.0f + hyperbolic_tangent(kRoot2OverPi * (x + 0.044715f * x * x * x)));
}

// ---- lanes: partial results of a loop, combined after it. Halving takes a few vector
// instructions; combining lanes one by one would dominate the time of short rows.

// Lanes of the loops over a row.
inline constexpr int64_t kRowLanes = 32;

// count: a power of two. Overwrites the lanes.
template <typename T, int64_t count, typename Combine>
[[gnu::always_inline]] inline T combine_lanes(T (&lanes)[count], const Combine& combine) {
#pragma GCC unroll 8
  for (int64_t half = count / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k) lanes[k] = combine(lanes[k], lanes[k + half]);
  return lanes[0];
}
template <int64_t count>
[[gnu::always_inline]] inline float sum_of_lanes(float (&lanes)[count]) {
  return combine_lanes(lanes,
                       [](float a, float b) __attribute__((always_inline)) { return a + b; });
}
template <int64_t count>
[[gnu::always_inline]] inline float greatest_of_lanes(float (&lanes)[count]) {
  return combine_lanes(
      lanes, [](float a, float b) __attribute__((always_inline)) { return a < b ? b : a; });
}
template <int64_t count>
[[gnu::always_inline]] inline float least_of_lanes(float (&lanes)[count]) {
  return combine_lanes(
      lanes, [](float a, float b) __attribute__((always_inline)) { return b < a ? b : a; });
}

// ---- bytes

// real = scale * (byte - zero_point), where byte is signed. Flipping the highest bit of an unsigned
// byte gives the signed byte that is 128 lower.
struct ByteScale {
  float scale = 1;
  int32_t zero_point = 0;
  uint8_t flip = 0;  // 128: the bytes in memory are unsigned
};

// byte = clamp(round_half_even(real * inverse) + zero_point), then flipped
struct ByteOutput {
  float inverse = 1;
  float low = 0;  // low, high: limits of real * inverse
  float high = 0;
  int32_t zero_point = 0;
  uint8_t flip = 0;
};

// least, most: limits of the signed bytes.
inline ByteOutput byte_output(const ByteScale& to, int32_t least = -128, int32_t most = 127) {
  return {static_cast<float>(1 / double{to.scale}), static_cast<float>(least - to.zero_point),
          static_cast<float>(most - to.zero_point), to.zero_point, to.flip};
}

// NaN becomes the lowest byte. steps: real * inverse.
[[gnu::always_inline]] inline int8_t byte_of_steps(float steps, const ByteOutput& output) {
  steps = steps > output.low ? steps : output.low;
  steps = steps < output.high ? steps : output.high;
  const int32_t byte = static_cast<int32_t>((steps + kRounder) - kRounder) + output.zero_point;
  return static_cast<int8_t>(static_cast<uint8_t>(byte) ^ output.flip);
}
[[gnu::always_inline]] inline int8_t byte_of(float real, const ByteOutput& output) {
  return byte_of_steps(real * output.inverse, output);
}

// Loads and stores one element of a tensor of floats or bytes.
[[gnu::always_inline]] inline float number_of(float x, uint8_t) { return x; }
[[gnu::always_inline]] inline int32_t number_of(int8_t x, uint8_t flip) {
  return static_cast<int8_t>(static_cast<uint8_t>(x) ^ flip);
}
[[gnu::always_inline]] inline void store_real(float real, float* to, const ByteOutput&) {
  *to = real;
}
[[gnu::always_inline]] inline void store_real(float real, int8_t* to, const ByteOutput& output) {
  *to = byte_of(real, output);
}

// Calls body(X(), Y()) with the element types of an input and an output: int8_t for bytes, else
// float.
template <typename Body>
void with_elements(bool has_byte_input, bool has_byte_output, const Body& body) {
  if (has_byte_input && has_byte_output) return body(int8_t{}, int8_t{});
  if (has_byte_input) return body(int8_t{}, float{});
  has_byte_output ? body(float{}, int8_t{}) : body(float{}, float{});
}

// Loops over rows take parameters by value: a store to bytes might change what a reference refers
// to, so the compiler would reload it for each element.
[[gnu::always_inline]] inline void round_to_bytes(const float* x, int8_t* y, int64_t count,
                                                  ByteOutput output) {
  const float* __restrict from = x;
  int8_t* __restrict to = y;
  for (int64_t i = 0; i < count; ++i) to[i] = byte_of(from[i], output);
}
template <typename X>
[[gnu::always_inline]] inline void make_real(const X* x, float* __restrict y, int64_t count,
                                             float scale, int32_t zero_point) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(x[i] - zero_point) * scale;
}

}  // namespace octet

// Floats to signed bytes in loops of vector instructions.
#pragma once

#include <cstdint>

namespace octet {

// byte = clamp(round_half_even(real * inverse) + zero_point, -128, 127)
struct ByteOutput {
  float inverse = 1;
  float low = 0;  // of the rounded product
  float high = 0;
  int32_t zero_point = 0;
};

inline ByteOutput byte_output(float scale, int32_t zero_point) {
  return {static_cast<float>(1 / double{scale}), static_cast<float>(-128 - zero_point),
          static_cast<float>(127 - zero_point), zero_point};
}

// NaNs become the lowest byte.
[[gnu::always_inline]] inline int8_t byte_of(float real, const ByteOutput& output) {
  constexpr float kRounder = 12582912.0f;  // adding it leaves whole numbers
  float steps = real * output.inverse;
  steps = steps > output.low ? steps : output.low;
  steps = steps < output.high ? steps : output.high;
  return static_cast<int8_t>(static_cast<int32_t>((steps + kRounder) - kRounder) +
                             output.zero_point);
}

// A real as an element of a tensor of floats, or of bytes.
[[gnu::always_inline]] inline void store_real(float real, float* to, const ByteOutput&) {
  *to = real;
}
[[gnu::always_inline]] inline void store_real(float real, int8_t* to, const ByteOutput& output) {
  *to = byte_of(real, output);
}

// A loop of that; by value, as a store to bytes could change what is read through references.
[[gnu::always_inline]] inline void round_to_bytes(const float* x, int8_t* y, int64_t count,
                                                  ByteOutput output) {
  const float* __restrict from = x;
  int8_t* __restrict to = y;
  for (int64_t i = 0; i < count; ++i) to[i] = byte_of(from[i], output);
}

}  // namespace octet

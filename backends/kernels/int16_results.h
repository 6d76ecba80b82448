// Turns the exact sums of int16 products into results with the bits of backends/reference, which
// computes them in double. With AVX-512, small int16 results are computed in double, too.
// Elsewhere, an integer comes from floats where these put it clearly between two halves, else from
// doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/kernels/int16_forms.h"
#include "backends/kernels/isa.h"

namespace octet {

// Constants of each output.
struct Int16Constants {
  // y = (sum + shift) * scale + bias; shift takes the zero point of x out of the sum
  std::vector<double> shift, scale, bias;
  // In steps of y, (sum + start) * factor + offset is off by less than 0.5 - room + kInt16Error *
  // |result|. start takes up most of bias and shift, so that the product is as small as the
  // result: the larger it is, the less of its fraction a float keeps.
  std::vector<int32_t> start;
  std::vector<float> factor, offset, room;
  bool are_small = true;  // no result is NaN, or has 2^30 steps of y or more

  // most: the largest |sum|.
  void add(double output_shift, double output_scale, double output_bias, double most,
           const RealForm& y) {
    // int32 sums plus start fit 32 bits. Sums in double have no such limit.
    const double most_start = most <= INT32_MAX ? INT32_MAX - most : INT32_MAX;
    // Beyond these floats could overflow, or lose bits below their least exponent.
    constexpr double kLeast = 0x1p-60, kMost = 0x1p60;
    const double inverse = 1.0 / static_cast<double>(y.scale), steps = output_scale * inverse,
                 shifted = output_shift * output_scale * inverse, biased = output_bias * inverse,
                 constant = shifted + biased;
    const bool is_safe = (steps == 0 || (std::abs(steps) >= kLeast && std::abs(steps) <= kMost)) &&
                         std::abs(shifted) <= kMost && std::abs(biased) <= kMost;
    const double from = is_safe && steps != 0 ? std::nearbyint(constant / steps) : 0,
                 whole = std::abs(from) <= most_start ? from : 0, rest = constant - whole * steps;
    // Roundings to float of the offset and what it adds to, those of doubles, and that of `room`.
    const double error =
        5 * 0x1p-24 * std::abs(rest) + 0x1p-48 * (std::abs(shifted) + std::abs(biased)) + 0x1p-22;
    are_small = are_small && is_safe &&
                most * std::abs(steps) + std::abs(shifted) + std::abs(biased) < 0x1p30;
    shift.push_back(output_shift);
    scale.push_back(output_scale);
    bias.push_back(output_bias);
    start.push_back(static_cast<int32_t>(whole));
    factor.push_back(is_safe ? static_cast<float>(steps) : 0);
    offset.push_back(is_safe ? static_cast<float>(rest) : 0);
    room.push_back(is_safe ? static_cast<float>(0.5 - error) : -1);
  }
};

// The relative error of (sum + start) * factor + offset: four roundings of 2^-24 (the sum, the
// factor, the product, the result), and 2^-25 for products of these errors.
constexpr float kInt16Error = 4.5f * 0x1p-24f;

// Sums of consecutive pixels, [pixels, width], of which the first `count` are outputs from `output`
// on. The constants from `constants` on are for `width` outputs.
template <typename Sum>
struct Int16Sums {
  const Sum* values;
  int64_t pixel, pixels;
  int64_t output, count;
  size_t constants;
};

struct Int16Results {
  RealForm y;
  RealLimits limits;
  int64_t outputs;
  double inverse;  // 1 / y.scale
  const Int16Constants& constants;
};

// made[i] = limits(round(((sum + shift) * scale + bias) * inverse) + zero point), i < count.
template <typename E, int64_t count, typename Sum>
[[gnu::always_inline]] inline void finish_exactly(const Int16Results& r, size_t constants,
                                                  const Sum* __restrict sums, E* __restrict made) {
  constexpr bool is_float = std::is_same_v<E, float>;
  const double inverse = r.inverse, zero = static_cast<double>(r.y.zero_point),
               low = is_float ? r.limits.low : r.limits.least,
               high = is_float ? r.limits.high : r.limits.most;
  const double* __restrict shift = r.constants.shift.data() + constants;
  const double* __restrict scale = r.constants.scale.data() + constants;
  const double* __restrict bias = r.constants.bias.data() + constants;
  for (int64_t i = 0; i < count; ++i) {
    double y = (static_cast<double>(sums[i]) + shift[i]) * scale[i] + bias[i];
    if constexpr (!is_float) y = std::nearbyint(y * inverse) + zero;
    y = y < low ? low : y;
    y = y > high ? high : y;
    if constexpr (is_float)
      made[i] = static_cast<E>(y);
    else
      made[i] = static_cast<E>(static_cast<int32_t>(y != y ? zero : y));
  }
}

// Computes finish_exactly for integers in float. Returns whether a result may differ.
template <typename E, int64_t count, typename Sum>
[[gnu::always_inline]] inline bool finish_in_float(const Int16Results& r, size_t constants,
                                                   const Sum* __restrict sums, E* __restrict made) {
  const int32_t zero = r.y.zero_point;
  const float low = static_cast<float>(r.limits.least - zero),
              high = static_cast<float>(r.limits.most - zero);
  const int32_t* __restrict start = r.constants.start.data() + constants;
  const float* __restrict factor = r.constants.factor.data() + constants;
  const float* __restrict offset = r.constants.offset.data() + constants;
  const float* __restrict room = r.constants.room.data() + constants;
  int32_t is_doubtful = 0;
  for (int64_t i = 0; i < count; ++i) {
    float y = static_cast<float>(sums[i] + start[i]) * factor[i] + offset[i];
    y = y < low ? low : y;
    y = y > high ? high : y;
    const float whole = std::nearbyint(y);
    is_doubtful |= std::abs(y - whole) + std::abs(y) * kInt16Error < room[i] ? 0 : 1;
    made[i] = static_cast<E>(static_cast<int32_t>(whole) + zero);
  }
  return is_doubtful != 0;
}

#if defined(__x86_64__)

[[gnu::target("avx512f"), gnu::always_inline]] inline __m512d eight_doubles(const int32_t* from) {
  return _mm512_cvtepi32_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512d eight_doubles(const double* from) {
  return _mm512_loadu_pd(from);
}

// finish_exactly for small results. Eight doubles of AVX-512 take less time than sixteen floats
// whose doubtful results are computed again.
template <int64_t width, typename Sum>
[[gnu::target("avx512f,avx512bw,avx512vl")]] void finish_in_avx512(const Int16Results& r,
                                                                   const Int16Sums<Sum>& sums,
                                                                   int16_t* to) {
  const __m256i zero = _mm256_set1_epi32(r.y.zero_point);
  const __m128i low = _mm_set1_epi16(static_cast<int16_t>(r.limits.least)),
                high = _mm_set1_epi16(static_cast<int16_t>(r.limits.most));
  const __m512d inverse = _mm512_set1_pd(r.inverse);
  const double* const shifts = r.constants.shift.data() + sums.constants;
  const double* const scales = r.constants.scale.data() + sums.constants;
  const double* const biases = r.constants.bias.data() + sums.constants;
  for (int64_t at = 0; at < sums.count; at += 8) {
    const __mmask8 is_there =
        static_cast<__mmask8>((1u << std::min<int64_t>(sums.count - at, 8)) - 1);
    const __m512d shift = _mm512_loadu_pd(shifts + at), scale = _mm512_loadu_pd(scales + at),
                  bias = _mm512_loadu_pd(biases + at);
    for (int64_t pixel = 0; pixel < sums.pixels; ++pixel) {
      __m512d y = _mm512_add_pd(eight_doubles(sums.values + pixel * width + at), shift);
      y = _mm512_mul_pd(_mm512_add_pd(_mm512_mul_pd(y, scale), bias), inverse);
      const __m256i whole = _mm256_add_epi32(_mm512_cvtpd_epi32(y), zero);
      _mm_mask_storeu_epi16(to + (sums.pixel + pixel) * r.outputs + sums.output + at, is_there,
                            _mm_min_epi16(_mm_max_epi16(_mm256_cvtsepi32_epi16(whole), low), high));
    }
  }
}

#endif

template <typename E, int64_t width, typename Sum>
[[gnu::always_inline]] inline void finish_pixel(const Int16Results& r, size_t constants,
                                                const Sum* sums, E* made) {
  constexpr int64_t kBlock = width % 16 == 0 ? 16 : width % 8 == 0 ? 8 : width;
  for (int64_t at = 0; at < width; at += kBlock) {
    const size_t some = constants + static_cast<size_t>(at);
    if constexpr (!std::is_same_v<E, float>)
      if (!finish_in_float<E, kBlock>(r, some, sums + at, made + at)) continue;
    finish_exactly<E, kBlock>(r, some, sums + at, made + at);
  }
}

template <typename E, int64_t width, typename Sum>
void finish_int16_as(const Int16Results& r, const Int16Sums<Sum>& sums, std::byte* to) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<E, int16_t> && width % 16 == 0)
    if (r.constants.are_small && may_use(Isa::kAvx512))
      return finish_in_avx512<width>(r, sums, reinterpret_cast<int16_t*>(to));
#endif
  run_vectorized([=]() __attribute__((always_inline)) {
    for (int64_t pixel = 0; pixel < sums.pixels; ++pixel) {
      E made[width];
      finish_pixel<E, width>(r, sums.constants, sums.values + pixel * width, made);
      E* const y = reinterpret_cast<E*>(to) + (sums.pixel + pixel) * r.outputs + sums.output;
      if (sums.count == width)
        std::memcpy(y, made, sizeof(made));
      else
        std::copy_n(made, sums.count, y);
    }
  });
}

template <int64_t width, typename Sum>
void finish_int16(const Int16Results& r, const Int16Sums<Sum>& sums, std::byte* y) {
  switch (r.y.dtype) {
    case DType::kInt16: return finish_int16_as<int16_t, width>(r, sums, y);
    case DType::kInt8: return finish_int16_as<int8_t, width>(r, sums, y);
    case DType::kUInt8: return finish_int16_as<uint8_t, width>(r, sums, y);
    default: return finish_int16_as<float, width>(r, sums, y);
  }
}

}  // namespace octet

// Sums, greatest and least elements that a loop keeps in lanes, to be added up behind it. They are
// halved, which takes a few vector instructions; one by one, short rows would spend their time on
// that.
#pragma once

#include <cstdint>

namespace octet {

// count: a power of two. Overwrites the lanes.
template <int64_t count>
[[gnu::always_inline]] inline float sum_of_lanes(float (&lanes)[count]) {
#pragma GCC unroll 8
  for (int64_t half = count / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  return lanes[0];
}

template <int64_t count>
[[gnu::always_inline]] inline float greatest_of_lanes(float (&lanes)[count]) {
#pragma GCC unroll 8
  for (int64_t half = count / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k)
      lanes[k] = lanes[k] < lanes[k + half] ? lanes[k + half] : lanes[k];
  return lanes[0];
}

template <int64_t count>
[[gnu::always_inline]] inline float least_of_lanes(float (&lanes)[count]) {
#pragma GCC unroll 8
  for (int64_t half = count / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k)
      lanes[k] = lanes[k + half] < lanes[k] ? lanes[k + half] : lanes[k];
  return lanes[0];
}

}  // namespace octet

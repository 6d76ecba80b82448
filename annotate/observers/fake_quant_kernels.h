// The inner loops of fake quantization with one scale, over plain arrays.
#pragma once

#include <cstdint>

namespace octet {

// Whole numbers from `low` to `high`, the zero point taken off them, times `scale`. |low| and
// |high| are at most kGridLimit.
struct FloatGrid {
  float scale;
  float low;
  float high;
};
inline constexpr int64_t kGridLimit = int64_t{1} << 21;

// to[i] = from[i] rounded half to even on the grid, NaN to its low end; inside[i] (when not null) =
// 1 where the rounded value lies on the grid, else 0.
void round_to_grid(const float* from, int64_t count, const FloatGrid& grid, float* to,
                   uint8_t* inside);

// to[i] = from[i] * inside[i]
void keep_inside(const float* from, const uint8_t* inside, int64_t count, float* to);

}  // namespace octet

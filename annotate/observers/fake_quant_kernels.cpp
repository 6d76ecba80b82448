// Compiled with -O3 and without contraction: fusing would undo the rounding by addition.
#include "annotate/observers/fake_quant_kernels.h"

#include "annotate/observers/vector_clones.h"

namespace octet {
namespace {

// Adding and taking away 3 * 2^22 rounds numbers below 2^22 half to even, and unlike std::nearbyint
// in vectors.
constexpr float kRounder = 12582912.0f;

}  // namespace

OCTET_VECTOR_CLONES void round_to_grid(const float* __restrict from, int64_t count,
                                       const FloatGrid& grid, float* __restrict to,
                                       uint8_t* __restrict inside) {
  const float inverse = 1.0f / grid.scale;
  const float scale = grid.scale;
  const float low = grid.low;
  const float high = grid.high;
  // One step beyond the grid is enough to tell what lies outside of it. The comparisons send NaN to
  // the low end.
  const float below = low - 1;
  const float above = high + 1;
  if (inside == nullptr) {
    for (int64_t i = 0; i < count; ++i) {
      float x = from[i] * inverse;
      x = x > low ? x : low;
      x = x < high ? x : high;
      to[i] = ((x + kRounder) - kRounder) * scale;
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    float x = from[i] * inverse;
    x = x > below ? x : below;
    x = x < above ? x : above;
    const float rounded = (x + kRounder) - kRounder;
    const float low_cut = rounded > low ? rounded : low;
    const float on_grid = low_cut < high ? low_cut : high;
    to[i] = on_grid * scale;
    inside[i] = on_grid == rounded ? 1 : 0;
  }
}

OCTET_VECTOR_CLONES void keep_inside(const float* __restrict from, const uint8_t* __restrict inside,
                                     int64_t count, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] * static_cast<float>(inside[i]);
}

}  // namespace octet

// How kernels for int16 activations read and write tensors: as int16, or as bytes or floats where
// an op changes the type. Real values are computed in the order and precision of
// backends/reference, so results have the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/dtype.h"

namespace octet {

// Elements of float32, int8, uint8 or int16; integers q mean scale * (q - zero_point).
struct RealForm {
  DType dtype = DType::kFloat32;
  float scale = 1;
  int32_t zero_point = 0;
  bool operator==(const RealForm&) const = default;
};

// Limits of what is stored: of the real values, then of the integers.
struct RealLimits {
  double low = -__builtin_inf(), high = __builtin_inf();
  int32_t least = 0, most = 0;
};

// Reads `count` elements, `step` elements apart, as reals. T: float or double, in which the
// product with the scale is rounded.
template <typename T>
void load_reals(const RealForm& form, const std::byte* from, int64_t step, int64_t count, T* to);

// Clamps `count` reals in place and stores them without gaps, rounded to even. NaN becomes the zero
// point.
template <typename T>
void store_reals(T* values, int64_t count, const RealForm& form, const RealLimits& limits,
                 std::byte* to);

}  // namespace octet

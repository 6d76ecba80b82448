// Fake quantization with one scale: the numbers of ATen's op, in vectors.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace octet {

// (clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) * scale, rounded half
// to even; scale f32 [1], zero_point i32 [1]. The gradient of x is that of the result where the
// rounded value is inside of the range, and 0 outside.
at::Tensor fake_quantize_straight_through(const at::Tensor& x, const at::Tensor& scale,
                                          const at::Tensor& zero_point, int64_t quant_min,
                                          int64_t quant_max);

}  // namespace octet

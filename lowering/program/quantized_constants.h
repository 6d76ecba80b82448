// Arithmetic on constants at lowering time.
#pragma once

#include <vector>

#include "lowering/program/program.h"

namespace octet {

// Elements as doubles, row-major. Integers, bool and f32/f64.
std::vector<double> constant_values(const Tensor& tensor);
bool has_constant_values(DType dtype);  // whether it is one of those

// f32: scale * (q - zero_point); one scale and zero point, or one per slice along `axis` (-1: per
// tensor).
Tensor dequantize_constant(const Tensor& tensor, const std::vector<double>& scales,
                           const std::vector<double>& zero_points, int axis);
Tensor dequantize_constant(const Tensor& tensor, const TensorQParams& qparams);

// Rounded half to even after multiplying with 1 / scale in float, as quantize does; clamped to
// [low, high].
Tensor quantize_constant(const Tensor& real, const TensorQParams& qparams, DType dtype, int64_t low,
                         int64_t high);

struct RoundedRange {
  int64_t low;
  int64_t high;
  bool adds_zero_first;  // the zero point is added before rounding, as the per-group ops do
};
// f32 constants with one scale and zero point (undefined: 0) a block; both f32, shape: blocks per
// dimension. dtype: at most 16 bits.
Tensor quantize_blocks(const Tensor& real, const Tensor& scale, const Tensor& zero_point,
                       DType dtype, const RoundedRange& range);

// Dimension d of the result is dimension dims[d] of the tensor.
Tensor permute_constant(const Tensor& tensor, const std::vector<int64_t>& dims);

}  // namespace octet

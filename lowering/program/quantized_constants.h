// Quantizes, dequantizes and permutes constants at lowering time.
#pragma once

#include <vector>

#include "lowering/program/program.h"

namespace octet {

// The elements as doubles, row-major, for integers, bool, f32 and f64.
std::vector<double> constant_values(const Tensor& tensor);
bool has_constant_values(DType dtype);  // one of these dtypes

// scale * (q - zero_point) as f32, with one scale and zero point, or one per slice along `axis`
// (-1: per tensor).
Tensor dequantize_constant(const Tensor& tensor, const std::vector<double>& scales,
                           const std::vector<double>& zero_points, int axis);
Tensor dequantize_constant(const Tensor& tensor, const TensorQParams& qparams);

// Multiplies by 1 / scale in float, as quantize does, rounds half to even, and clamps to [low,
// high].
Tensor quantize_constant(const Tensor& real, const TensorQParams& qparams, DType dtype, int64_t low,
                         int64_t high);

struct RoundedRange {
  int64_t low;
  int64_t high;
  bool adds_zero_first;  // adds the zero point before rounding, as the per-group ops do
};
// Quantizes an f32 constant with one scale and zero point (undefined: 0) per block. Both are f32;
// their shape is the number of blocks along each dimension. dtype: at most 16 bits.
Tensor quantize_blocks(const Tensor& real, const Tensor& scale, const Tensor& zero_point,
                       DType dtype, const RoundedRange& range);

// Dimension d of the result is dimension dims[d] of the tensor.
Tensor permute_constant(const Tensor& tensor, const std::vector<int64_t>& dims);

}  // namespace octet

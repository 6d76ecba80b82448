// Computes scale and zero point from a range of values, and the default ranges of quantized dtypes.
// The float arithmetic gives torchao's bits.
#pragma once

#include <algorithm>

#include "annotate/annotation/quant_spec.h"
#include "core/base/dtype.h"

namespace octet {

// real = scale * (quantized - zero_point).
struct QParams {
  // > 0; size 1, the channel count, or one per block in row-major order
  std::vector<float> scale;
  std::vector<int64_t> zero_point;  // in [quant_min, quant_max]; same size as scale
  // only for per_channel_affine_float_qparams; zero_point is then empty
  std::vector<float> float_zero_point;
  int axis = -1;  // -1: per tensor
  // dtype of the buffer that convert creates per channel: int64 when symmetric, int32 when affine,
  // else float32
  DType zero_point_dtype = DType::kInt64;
  // for affine granularities: elements of each dimension per scale; otherwise empty
  std::vector<int64_t> block_size;
};

// A range that a least scale leaves fewer steps than this is as good as zeros: half of the
// integers, but no more than half of 8 bits.
inline double fewest_steps(int64_t quant_min, int64_t quant_max) {
  return std::min(static_cast<double>(quant_max - quant_min), 255.0) / 2;
}

struct QParamsTarget {
  DType dtype = DType::kInt8;
  QScheme qscheme = QScheme::kPerTensorAffine;
  int64_t quant_min = -128;
  int64_t quant_max = 127;
  // the quant range is given instead of the dtype's default, which moves the zero point of
  // symmetric uint8 to its middle
  bool has_custom_range = false;
  float eps = 0;  // least scale
  // Least scale that replaces eps for ranges to which eps would leave fewer than fewest_steps():
  // one, or one per channel. Empty: eps applies to them too.
  std::vector<float> finest = {};
  int axis = -1;
};

// The QParams that map [min[i], max[i]] onto [quant_min, quant_max], after widening the range to
// include 0 (except for float qparams). min and max: one element, or one per channel. Throws
// Error("convert", subject, ...) on NaN, on infinities and on min > max.
QParams choose_qparams(std::span<const float> min, std::span<const float> max,
                       const QParamsTarget& target, const std::string& subject);

// The inclusive range of quantized values: the given one, else the dtype's. reduce_range gives up
// one bit. Throws Error("prepare", subject, ...) when only one end is given, when the range is
// empty, excludes 0 or does not fit the dtype, and for dtypes without a default (float8).
IntegerRange resolve_quant_range(DType dtype, std::optional<int64_t> quant_min,
                                 std::optional<int64_t> quant_max, bool reduce_range,
                                 const std::string& subject);

// Checks qparams that code outside of this tree may have computed. Throws Error("convert", subject,
// ...), naming their `source`, unless there are as many zero points as scales, each scale is finite
// and positive, each integer zero point is within `range`, and each float one is finite.
void check_qparams(const QParams& qparams, IntegerRange range, const std::string& source,
                   const std::string& subject = "");

}  // namespace octet

// Scale and zero point from a range, and the ranges of quantized dtypes. The float arithmetic is
// torchao's, to the bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "annotate/annotation/quant_spec.h"
#include "core/base/dtype.h"

namespace octet {

// real = scale * (quantized - zero_point).
struct QParams {
  // > 0; size 1, the channel count, or one per block in row-major order
  std::vector<float> scale;
  std::vector<int64_t> zero_point;  // in [quant_min, quant_max]; same size as scale
  // of per_channel_affine_float_qparams only, then zero_point is empty
  std::vector<float> float_zero_point;
  int axis = -1;  // -1: per tensor
  // of the buffer that convert makes per channel: int64 when symmetric, int32 when affine, else
  // float32
  DType zero_point_dtype = DType::kInt64;
  // of affine granularities: elements of each dimension per scale; empty for the two kinds above
  std::vector<int64_t> block_size;
};

// What choose_qparams must know beside the range.
// Ranges of fewer steps at a least scale are as good as zeros: half of the integers, and no more
// than half of 8 bits.
inline double fewest_steps(int64_t quant_min, int64_t quant_max) {
  return std::min(static_cast<double>(quant_max - quant_min), 255.0) / 2;
}

struct QParamsTarget {
  DType dtype = DType::kInt8;
  QScheme qscheme = QScheme::kPerTensorAffine;
  int64_t quant_min = -128;
  int64_t quant_max = 127;
  // given, not the dtype's own: moves the zero point of symmetric uint8 to the middle of the range
  bool has_custom_range = false;
  float eps = 0;  // least scale
  // Least scale instead of eps for a range to which eps would leave less than fewest_steps(): one
  // for all, or one per channel; empty: eps for such ranges too.
  std::vector<float> finest = {};
  int axis = -1;
};

// The QParams that map [min[i], max[i]] onto [quant_min, quant_max]; the range is first widened to
// hold 0 (but for float qparams). min and max: one element, or one per channel. Throws
// Error("convert", subject, ...) on NaN, on infinities and on min > max.
QParams choose_qparams(std::span<const float> min, std::span<const float> max,
                       const QParamsTarget& target, const std::string& subject);

// Inclusive range of quantized values: the given one, else the dtype's. reduce_range leaves out one
// bit. Throws Error("prepare", subject, ...) when only one end is given, when the range is empty,
// leaves out 0 or does not fit the dtype, and for dtypes without a default (float8).
IntegerRange resolve_quant_range(DType dtype, std::optional<int64_t> quant_min,
                                 std::optional<int64_t> quant_max, bool reduce_range,
                                 const std::string& subject);

// Scales and zero points that code outside of this tree may have computed.

// Throws Error("convert", subject, ...), which names `source` (who computed them), unless there are
// as many zero points as scales, each scale is finite and above 0, each integral zero point within
// `range` and each other one finite.
void check_qparams(const QParams& qparams, IntegerRange range, const std::string& source,
                   const std::string& subject = "");

}  // namespace octet

// The grid of values that a quantized weight can take, element by element: scale * (q - zero point)
// for whole numbers q from quant_min to quant_max.
#pragma once

#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "annotate/observers/observer.h"
#include "core/base/report.h"

namespace octet {

struct WeightGrid {
  at::Tensor scale;       // dtype (f32 or f64) and shape of the weight
  at::Tensor zero_point;  // same dtype and shape
  int64_t quant_min = 0;
  int64_t quant_max = 0;

  // the nearest q, half to even, clamped, as f64
  at::Tensor nearest(const at::Tensor& weight) const;
  // the dequantized value, in the dtype of `scale`
  at::Tensor values(const at::Tensor& q) const;
};

// Whether the weight's observer defines such a grid: it is static, its dtype and zero points are
// integers, and the weight is f32 or f64.
Verdict has_weight_grid(const Observer& observer, const at::Tensor& weight);
// REQUIRES: has_weight_grid(). Throws Error("convert", subject, ...) when the observer saw no data
// or a tensor of another shape.
WeightGrid weight_grid(const Observer& observer, const at::Tensor& weight,
                       const std::string& subject);

}  // namespace octet

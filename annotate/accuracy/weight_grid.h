// The values that a quantized weight can take: scale * (q - zero point) for the whole numbers q
// from quant_min to quant_max, element by element.
#pragma once

#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "annotate/observers/observer.h"
#include "core/base/report.h"

namespace octet {

struct WeightGrid {
  at::Tensor scale;       // f32 or f64 as the weight, of its shape
  at::Tensor zero_point;  // likewise
  int64_t quant_min = 0;
  int64_t quant_max = 0;

  // q as f64: the nearest, half to even, clamped
  at::Tensor nearest(const at::Tensor& weight) const;
  // what dequantize gives, in the dtype of scale
  at::Tensor values(const at::Tensor& q) const;
};

// Whether the weight's observer has such a grid: static, integers, one zero point that is an
// integer, and weights of f32 or f64.
Verdict has_weight_grid(const Observer& observer, const at::Tensor& weight);
// REQUIRES: has_weight_grid(). Throws Error("convert", subject, ...) when the observer saw no data
// or a tensor of another shape.
WeightGrid weight_grid(const Observer& observer, const at::Tensor& weight,
                       const std::string& subject);

}  // namespace octet

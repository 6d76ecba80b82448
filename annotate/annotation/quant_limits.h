// What a backend requires of a quantized tensor beyond its spec: dtypes, ranges and scales. Names
// follow PyTorch's DTypeWithConstraints; an absent field requires nothing.
#pragma once

#include "annotate/annotation/quant_spec.h"

namespace octet {

struct QParams;

struct QuantLimits {
  std::vector<DType> quantized_dtypes;           // allowed dtypes; empty: any
  std::optional<int64_t> quant_min_lower_bound;  // quant_min must be at least this
  std::optional<int64_t> quant_max_upper_bound;  // quant_max must be at most this
  std::optional<double> scale_min_lower_bound;   // each scale must be at least this; > 0
  std::optional<double> scale_max_upper_bound;
  std::optional<double> scale_exact_match;  // each scale must equal this, as float32
  std::optional<int64_t> zero_point_exact_match;
  // where the limits are written, for messages: "npu.json: /patterns/0/constraints/x", or the name
  // of a row
  std::string place = {};

  bool empty() const;  // requires nothing
  bool asks_scales() const {
    return scale_min_lower_bound || scale_max_upper_bound || scale_exact_match ||
           zero_point_exact_match;
  }
};

// Why the spec violates the limits, as far as the spec tells: "quant_max is 255, want at most 127
// (quant_max_upper_bound)"; empty: it does not. Dynamic specs violate limits on scales, as no check
// can see their scale. So does a spec with an observer when an exact scale is required, as it could
// match only by accident.
std::string objection(const QuantLimits& limits, const SpecVariant& spec);
// Why scales and zero points found by calibration violate the limits; empty: they do not.
std::string objection(const QuantLimits& limits, const QParams& qparams);

}  // namespace octet

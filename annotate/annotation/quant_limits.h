// What a backend asks of an annotated tensor beyond its spec. Names follow PyTorch's
// DTypeWithConstraints; an absent one asks nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "annotate/annotation/quant_spec.h"

namespace octet {

struct QParams;

struct QuantLimits {
  std::vector<DType> quantized_dtypes;           // the spec has one of these; empty: any
  std::optional<int64_t> quant_min_lower_bound;  // its quant_min is at least this
  std::optional<int64_t> quant_max_upper_bound;  // its quant_max is at most this
  std::optional<double> scale_min_lower_bound;   // each of its scales is at least this; > 0
  std::optional<double> scale_max_upper_bound;
  std::optional<double> scale_exact_match;  // each of its scales is this, as float32
  std::optional<int64_t> zero_point_exact_match;
  // where it was said, for messages: "npu.json: /patterns/0/constraints/x", or the name of a row
  std::string place = {};

  bool empty() const;  // asks nothing
  bool asks_scales() const {
    return scale_min_lower_bound || scale_max_upper_bound || scale_exact_match ||
           zero_point_exact_match;
  }
};

// What speaks against the spec, as far as specs say: dtype, range, fixed scales; dynamic specs,
// whose scale no check can see; and an exact scale for a spec with an observer, which would have it
// by accident. "quant_max is 255, want at most 127 (quant_max_upper_bound)"; empty: nothing.
std::string objection(const QuantLimits& limits, const SpecVariant& spec);
// The same of scales and zero points that calibration found.
std::string objection(const QuantLimits& limits, const QParams& qparams);

}  // namespace octet

// Real numbers in the integer steps of a quantized tensor: single ones, and the clamp of an op.
#pragma once

#include <optional>

#include "backends/onednn/form.h"

namespace octet::onednn {

// The clamp of an op's output in real units; a missing bound is unbounded.
struct Clamp {
  std::optional<double> min;
  std::optional<double> max;
  bool is_needed() const { return min || max; }
};

// The clamp in integers: [lowest, highest] of the type, narrowed. Requires an integer type.
struct StepRange {
  int low;
  int high;
};
StepRange clamp_in_steps(const QuantParams& quant_params, const Clamp& clamp);
// round_half_even(real / scale) + zero point, clamped to the type.
int quantize_one(double real, const QuantParams& quant_params);

}  // namespace octet::onednn

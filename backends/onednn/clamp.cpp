// Rounds half to even.
#include "backends/onednn/clamp.h"

#include <algorithm>
#include <cmath>

namespace octet::onednn {

int quantize_one(double real, const QuantParams& quant_params) {
  const double steps = std::nearbyint(real / quant_params.scale) + quant_params.zero_point;
  if (std::isnan(steps)) return quant_params.lowest();
  return static_cast<int>(std::clamp<double>(steps, quant_params.lowest(), quant_params.highest()));
}

StepRange clamp_in_steps(const QuantParams& quant_params, const Clamp& clamp) {
  StepRange range{quant_params.lowest(), quant_params.highest()};
  if (clamp.min) range.low = quantize_one(*clamp.min, quant_params);
  if (clamp.max) range.high = quantize_one(*clamp.max, quant_params);
  return range;
}

}  // namespace octet::onednn

// Folds scales, zero points and clamps for the byte kernels.
#include "backends/onednn/emit/byte_output.h"

#include <cmath>
#include <limits>

#include "backends/onednn/emit/arithmetic.h"

namespace octet::onednn {

std::optional<ByteScales> byte_scales(const Arithmetic& plan, const QuantParams& written,
                                      const Clamp& clamp, const QuantParams* residual,
                                      const Dims& w) {
  const size_t outputs = static_cast<size_t>(w[0]);
  const QuantParams steps = as_unsigned(written);
  const StepRange range = clamp_in_steps(steps, clamp);
  // 1, unless the plan is in real units
  const float factor = static_cast<float>(plan.unit / steps.scale);
  ByteScales scales;
  scales.scale = plan.scale;
  scales.scale.resize(outputs, plan.scale[0]);
  scales.bias = plan.bias;
  scales.bias.resize(outputs, 0.0f);
  scales.residual = residual != nullptr ? residual->scale / steps.scale : 0;
  const float offset =
      static_cast<float>(steps.zero_point) -
      (residual != nullptr ? static_cast<float>(residual->zero_point) * scales.residual : 0);
  const double most_products = 255.0 * 128.0 * static_cast<double>(product(w) / w[0]);
  for (size_t c = 0; c < outputs; ++c) {
    scales.scale[c] *= factor;
    scales.bias[c] = scales.bias[c] * factor + offset;
    if (!(std::fabs(scales.scale[c]) * most_products + std::fabs(scales.bias[c]) +
              255.0 * scales.residual <
          1e9))
      return std::nullopt;
  }
  scales.padding = static_cast<uint8_t>(plan.x.zero_point);
  scales.low = static_cast<uint8_t>(range.low);
  scales.high = static_cast<uint8_t>(range.high);
  scales.is_signed = written.type == ElementType::s8;
  return scales;
}

ByteConvOutput real_output(const Arithmetic& plan, const Clamp& clamp, size_t outputs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ByteConvOutput output{TileOutput::kReals, {plan.scale, plan.bias}, -kInfinity, kInfinity};
  output.scales.scale.resize(outputs, plan.scale[0]);
  output.scales.bias.resize(outputs, 0.0f);
  output.scales.padding = static_cast<uint8_t>(plan.x.zero_point);
  if (clamp.min) output.low = static_cast<float>(*clamp.min);
  if (clamp.max) output.high = static_cast<float>(*clamp.max);
  return output;
}

std::optional<ByteConvOutput> byte_output(const Arithmetic& plan, const QuantParams& written,
                                          const Clamp& clamp, const QuantParams* residual,
                                          const Dims& w, bool is_fused) {
  if (!written.is_integer()) return real_output(plan, clamp, static_cast<size_t>(w[0]));
  const std::optional<ByteScales> scales = byte_scales(plan, written, clamp, residual, w);
  if (!scales) return std::nullopt;
  ByteConvOutput output{residual == nullptr ? TileOutput::kBytes : TileOutput::kSum, *scales};
  if (is_fused) return output;
  const size_t outputs = static_cast<size_t>(w[0]);
  const Arithmetic steps = residual == nullptr ? plan : in_steps_of(*residual, plan, w[0]);
  output.is_fused = false;
  output.zero_point = static_cast<float>(written.zero_point);
  output.scales.scale = steps.scale;
  output.scales.scale.resize(outputs, steps.scale[0]);
  output.scales.bias = steps.bias;
  output.scales.bias.resize(outputs, 0.0f);
  if (residual != nullptr) output.scales.residual = 1.0f / (written.scale / residual->scale);
  return output;
}

}  // namespace octet::onednn

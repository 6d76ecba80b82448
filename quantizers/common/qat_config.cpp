#include "quantizers/common/qat_config.h"

#include <fmt/format.h>

namespace octet {
namespace {

void fake_quantize(QuantizationSpec& spec, const std::optional<ObserverChoice>& chosen,
                   const OwnOptions& options) {
  ObserverChoice& choice = spec.observer_or_fake_quant_ctr;
  if (choice.name.find("fake_quant") != std::string::npos) return;
  const bool is_learned = options.learns_ranges && !spec.is_dynamic;
  if (choice.affine) {
    choice.name = "affine_fake_quantize";
    choice.averaging_constant = 1;
  } else if (chosen) {
    choice.name =
        fmt::format("{}({})", is_learned ? "lsq_fake_quantize" : "fake_quantize", choice.name);
  } else if (spec.is_dynamic) {
    choice.name = "fake_quantize";
    choice.averaging_constant = 1;
  } else {
    choice.name = is_learned ? "lsq_fake_quantize" : "fused_moving_avg_obs_fake_quantize";
  }
}

}  // namespace

QuantizationConfig to_qat_config(QuantizationConfig config, const OwnOptions& options) {
  if (config.input_activation)
    fake_quantize(*config.input_activation, options.act_observer, options);
  if (config.output_activation)
    fake_quantize(*config.output_activation, options.act_observer, options);
  if (config.weight) fake_quantize(*config.weight, options.weight_observer, options);
  config.is_qat = true;
  return config;
}

}  // namespace octet

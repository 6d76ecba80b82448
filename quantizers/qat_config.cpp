#include "quantizers/qat_config.h"

#include <fmt/format.h>

#include "core/error.h"

namespace octet {
namespace {

void fake_quantize(QuantizationSpec& spec, const std::optional<ObserverChoice>& chosen, const char* option) {
  ObserverChoice& choice = spec.observer_or_fake_quant_ctr;
  if (choice.affine)
    throw Error("quantizer", option,
                fmt::format("got {}, want one scale for the tensor or for each channel; training has no other fake-quants", choice.name));
  if (choice.name.find("fake_quant") != std::string::npos) return;
  if (chosen) {
    choice.name = fmt::format("fake_quantize({})", choice.name);
  } else if (spec.is_dynamic) {
    choice.name = "fake_quantize";
    choice.averaging_constant = 1;
  } else {
    choice.name = "fused_moving_avg_obs_fake_quantize";
  }
}

}  // namespace

OwnOptions options_for_training(OwnOptions options) {
  if (!options.group_size) options.group_size = 0;
  return options;
}

QuantizationConfig to_qat_config(QuantizationConfig config, const OwnOptions& options) {
  if (config.input_activation) fake_quantize(*config.input_activation, options.act_observer, "is_per_token");
  if (config.output_activation) fake_quantize(*config.output_activation, options.act_observer, "is_per_token");
  if (config.weight) fake_quantize(*config.weight, options.weight_observer, "group_size");
  config.is_qat = true;
  return config;
}

}  // namespace octet

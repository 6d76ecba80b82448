// Builds the configurations for x86.
#include "quantizers/x86_config.h"

#include <fmt/format.h>

#include "core/error.h"
#include "quantizers/observer_option.h"
#include "quantizers/weight_only.h"

namespace octet {

namespace {

std::string activation_observer(const X86InductorOptions& options) {
  if (options.is_qat) return "moving_average_min_max";
  return options.is_dynamic ? "placeholder" : "histogram";
}

QuantizationSpec activation_spec(const X86InductorOptions& options) {
  const int64_t quant_max = options.reduce_range ? 127 : 255;
  if (options.is_dynamic && options.is_per_token) return per_token_spec(DType::kUInt8, 0, quant_max);
  QuantizationSpec activation;
  activation.dtype = DType::kUInt8;
  activation.observer_or_fake_quant_ctr.name = activation_observer(options);
  activation.observer_or_fake_quant_ctr.eps = kBackendEps;
  if (options.is_qat && options.is_dynamic) activation.observer_or_fake_quant_ctr.averaging_constant = 1;
  activation.quant_min = 0;
  activation.quant_max = quant_max;
  activation.qscheme = QScheme::kPerTensorAffine;
  activation.is_dynamic = options.is_dynamic;
  return activation;
}

// Weights that the peer lacks: alone, of 4 bits, in groups.
QuantizationSpec group_weight_spec(const X86InductorOptions& options) {
  return weight_spec({.bits = options.weight_bits, .is_per_channel = true, .group_size = options.group_size});
}

QuantizationSpec x86_weight_spec(const X86InductorOptions& options) {
  if (options.weight_bits != 8 || options.group_size.value_or(0) != 0) return group_weight_spec(options);
  QuantizationSpec weight;
  weight.dtype = DType::kInt8;
  weight.observer_or_fake_quant_ctr.name = options.is_qat ? "moving_average_per_channel_min_max" : "per_channel_min_max";
  weight.observer_or_fake_quant_ctr.eps = kBackendEps;
  weight.quant_min = -128;
  weight.quant_max = 127;
  weight.qscheme = QScheme::kPerChannelSymmetric;
  weight.ch_axis = 0;
  return weight;
}

}  // namespace

QuantizationConfig get_default_x86_inductor_quantization_config(const X86InductorOptions& options) {
  if (options.is_weight_only && options.is_dynamic)
    throw Error("quantizer", "is_weight_only", "got true beside is_dynamic, want one of them; weight-only leaves activations float");
  if (options.is_weight_only && options.act_observer)
    throw Error("quantizer", "act_observer",
                fmt::format("got {} beside is_weight_only, want one of them; activations stay float", options.act_observer->name));
  QuantizationConfig config;
  QuantizationSpec weight = options.is_weight_only ? group_weight_spec(options) : x86_weight_spec(options);
  if (options.weight_observer) choose_observer(weight, *options.weight_observer, "weight_observer");
  config.weight = weight;
  if (options.is_weight_only) return config;
  QuantizationSpec activation = activation_spec(options);
  if (options.act_observer) choose_observer(activation, *options.act_observer, "act_observer");
  config.input_activation = activation;
  config.output_activation = activation;
  config.is_qat = options.is_qat;
  return config;
}

QuantizationConfig get_x86_inductor_linear_dynamic_fp16_config() {
  QuantizationSpec weight;
  weight.dtype = DType::kFloat16;
  weight.observer_or_fake_quant_ctr.name = "placeholder";
  QuantizationConfig config;
  config.weight = weight;
  return config;
}

}  // namespace octet

// Builds the configurations for x86.
#include "quantizers/x86_config.h"

namespace octet {

namespace {

std::string activation_observer(const X86InductorOptions& options) {
  if (options.is_qat) return "moving_average_min_max";
  return options.is_dynamic ? "placeholder" : "histogram";
}

}  // namespace

QuantizationConfig get_default_x86_inductor_quantization_config(const X86InductorOptions& options) {
  QuantizationSpec activation;
  activation.dtype = DType::kUInt8;
  activation.observer_or_fake_quant_ctr.name = activation_observer(options);
  activation.observer_or_fake_quant_ctr.eps = kBackendEps;
  if (options.is_qat && options.is_dynamic) activation.observer_or_fake_quant_ctr.averaging_constant = 1;
  activation.quant_min = 0;
  activation.quant_max = options.reduce_range ? 127 : 255;
  activation.qscheme = QScheme::kPerTensorAffine;
  activation.is_dynamic = options.is_dynamic;

  QuantizationSpec weight;
  weight.dtype = DType::kInt8;
  weight.observer_or_fake_quant_ctr.name = options.is_qat ? "moving_average_per_channel_min_max" : "per_channel_min_max";
  weight.observer_or_fake_quant_ctr.eps = kBackendEps;
  weight.quant_min = -128;
  weight.quant_max = 127;
  weight.qscheme = QScheme::kPerChannelSymmetric;
  weight.ch_axis = 0;

  QuantizationConfig config;
  config.input_activation = activation;
  config.output_activation = activation;
  config.weight = weight;
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

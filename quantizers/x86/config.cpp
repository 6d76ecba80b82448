// Builds the configurations for x86.
#include "quantizers/x86/config.h"

#include "quantizers/common/qat_config.h"
#include "quantizers/common/weight_only.h"

namespace octet {

namespace {

QuantizationSpec activation_spec(const X86InductorOptions& options) {
  IntegerRange range = integer_range(DType::kUInt8);
  if (options.reduce_range) range = reduced_range(options.own, DType::kUInt8, range);
  if (options.is_dynamic && options.own.is_per_token)
    return per_token_spec(DType::kUInt8, range.min, range.max);
  QuantizationSpec activation;
  activation.dtype = DType::kUInt8;
  activation.observer_or_fake_quant_ctr.name = options.is_dynamic ? "placeholder" : "histogram";
  activation.observer_or_fake_quant_ctr.eps = kBackendEps;
  activation.quant_min = range.min;
  activation.quant_max = range.max;
  activation.qscheme = QScheme::kPerTensorAffine;
  activation.is_dynamic = options.is_dynamic;
  return activation;
}

QuantizationSpec x86_weight_spec(const X86InductorOptions& options) {
  const OwnOptions& own = options.own;
  if (own.is_weight_only || own.weight_bits != 8 || own.group_size.value_or(0) != 0)
    return weight_spec({.bits = own.weight_bits,
                        .is_per_channel = true,
                        .group_size = own.group_size,
                        .search_weight_ranges = own.search_weight_ranges});
  QuantizationSpec weight;
  weight.dtype = DType::kInt8;
  weight.observer_or_fake_quant_ctr.name = weight_observer_name(own.search_weight_ranges, true);
  weight.observer_or_fake_quant_ctr.eps = kBackendEps;
  weight.quant_min = -128;
  weight.quant_max = 127;
  weight.qscheme = QScheme::kPerChannelSymmetric;
  weight.ch_axis = 0;
  return weight;
}

}  // namespace

QuantizationConfig get_default_x86_inductor_quantization_config(const X86InductorOptions& given) {
  X86InductorOptions options = given;
  QuantizationConfig config =
      own_config(options.own, x86_weight_spec(options), activation_spec(options), true);
  return options.is_qat ? to_qat_config(std::move(config), options.own) : config;
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

// Builds the configurations for x86.
#include "quantizers/x86/config.h"

#include "quantizers/common/weight_only.h"

namespace octet {

namespace {

QuantizationSpec x86_weight_spec(const OwnOptions& own) {
  if (has_plain_weights(own)) return plain_weight_spec(own, true, integer_range(DType::kInt8));
  return weight_spec({.bits = own.weight_bits,
                      .is_per_channel = true,
                      .group_size = own.group_size,
                      .search_weight_ranges = own.search_weight_ranges});
}

}  // namespace

QuantizationConfig get_default_x86_inductor_quantization_config(const X86InductorOptions& options) {
  IntegerRange range = integer_range(DType::kUInt8);
  if (options.reduce_range) range = reduced_range(options.own, DType::kUInt8, range);
  QuantizationConfig config =
      own_config(options.own, x86_weight_spec(options.own),
                 activation_spec(options.own, DType::kUInt8, range, options.is_dynamic), true);
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

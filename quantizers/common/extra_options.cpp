// What both kinds of configurations do with the options they share.
#include "quantizers/common/extra_options.h"

#include <utility>

#include <fmt/format.h>

#include "annotate/annotation/qparams.h"
#include "core/base/error.h"
#include "quantizers/common/observer_option.h"
#include "quantizers/common/weight_only.h"

namespace octet {

IntegerRange reduced_range(const OwnOptions& options, DType dtype, IntegerRange range) {
  if (options.act_observer && options.act_observer->reduce_range) return range;
  return resolve_quant_range(dtype, range.min, range.max, true, "reduce_range");
}

std::string weight_observer_name(bool search_weight_ranges, bool is_per_channel) {
  if (search_weight_ranges) return is_per_channel ? "per_channel_mse" : "mse";
  return is_per_channel ? "per_channel_min_max" : "min_max";
}

bool has_plain_weights(const OwnOptions& options) {
  return !options.is_weight_only && options.weight_bits == 8 && options.group_size.value_or(0) == 0;
}

QuantizationSpec plain_weight_spec(const OwnOptions& options, bool is_per_channel,
                                   IntegerRange range) {
  QuantizationSpec weight;
  weight.dtype = DType::kInt8;
  weight.observer_or_fake_quant_ctr.name =
      weight_observer_name(options.search_weight_ranges, is_per_channel);
  weight.observer_or_fake_quant_ctr.eps = kBackendEps;
  weight.quant_min = range.min;
  weight.quant_max = range.max;
  weight.qscheme = is_per_channel ? QScheme::kPerChannelSymmetric : QScheme::kPerTensorSymmetric;
  weight.ch_axis = 0;
  return weight;
}

QuantizationSpec activation_spec(const OwnOptions& options, DType dtype, IntegerRange range,
                                 bool is_dynamic) {
  if (is_dynamic && options.is_per_token) return per_token_spec(dtype, range.min, range.max);
  QuantizationSpec activation;
  activation.dtype = dtype;
  activation.observer_or_fake_quant_ctr.name = is_dynamic ? "placeholder" : "histogram";
  activation.observer_or_fake_quant_ctr.eps = kBackendEps;
  activation.quant_min = range.min;
  activation.quant_max = range.max;
  activation.qscheme = QScheme::kPerTensorAffine;
  activation.is_dynamic = is_dynamic;
  return activation;
}

QuantizationConfig own_config(const OwnOptions& options, QuantizationSpec weight,
                              QuantizationSpec activation, bool outputs) {
  if (options.is_weight_only && activation.is_dynamic)
    throw Error(
        "quantizer", "is_weight_only",
        "got true beside is_dynamic, want one of them; weight-only leaves activations float");
  if (options.is_weight_only && options.act_observer)
    throw Error(
        "quantizer", "act_observer",
        fmt::format("got {} beside is_weight_only, want one of them; activations stay float",
                    options.act_observer->name));
  QuantizationConfig config;
  if (options.weight_observer) choose_observer(weight, *options.weight_observer, "weight_observer");
  config.weight = std::move(weight);
  if (options.is_weight_only) return config;
  if (options.act_observer) choose_observer(activation, *options.act_observer, "act_observer");
  config.input_activation = std::move(activation);
  if (outputs) config.output_activation = config.input_activation;
  return config;
}

}  // namespace octet

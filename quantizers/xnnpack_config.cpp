// Builds the symmetric configurations.
#include "quantizers/xnnpack_config.h"

#include <fmt/format.h>

#include "core/error.h"
#include "quantizers/observer_option.h"
#include "quantizers/weight_only.h"

namespace octet {

namespace {

void check_range(const char* what, int64_t min, int64_t max) {
  if (min > 0 || max < 0 || min >= max || min < -128 || max > 127)
    throw Error("quantizer", what, fmt::format("not a range within -128 .. 127 that contains 0, got {} .. {}", min, max));
}

// Weights that the peer has: min-max, per channel or per tensor, 8 bits, with a range of one's own.
QuantizationSpec peer_weight_spec(const SymmetricOptions& options) {
  QuantizationSpec weight;
  weight.dtype = DType::kInt8;
  weight.observer_or_fake_quant_ctr.name = options.is_per_channel ? "per_channel_min_max" : "min_max";
  weight.observer_or_fake_quant_ctr.eps = kBackendEps;
  weight.quant_min = options.weight_qmin;
  weight.quant_max = options.weight_qmax;
  weight.qscheme = options.is_per_channel ? QScheme::kPerChannelSymmetric : QScheme::kPerTensorSymmetric;
  weight.ch_axis = 0;
  return weight;
}

// A narrower weight_qmin .. weight_qmax than the bits have is taken over; the default one means all that they have.
QuantizationSpec symmetric_weight_spec(const SymmetricOptions& options) {
  const bool is_peer = !options.is_weight_only && options.weight_bits == 8 && options.group_size.value_or(0) == 0;
  if (is_peer) return peer_weight_spec(options);
  QuantizationSpec weight = weight_spec({options.weight_bits, options.is_per_channel, options.group_size});
  const SymmetricOptions defaults;
  if (options.weight_qmin == defaults.weight_qmin && options.weight_qmax == defaults.weight_qmax) return weight;
  if (options.weight_bits == 4 && (options.weight_qmin < *weight.quant_min || options.weight_qmax > *weight.quant_max))
    throw Error("quantizer", "weight_qmin .. weight_qmax",
                fmt::format("4-bit weights lie within -8 .. 7, got {} .. {}", options.weight_qmin, options.weight_qmax));
  weight.quant_min = options.weight_qmin;
  weight.quant_max = options.weight_qmax;
  return weight;
}

QuantizationSpec activation_spec(const SymmetricOptions& options) {
  if (options.is_dynamic && options.is_per_token) return per_token_spec(DType::kInt8, options.act_qmin, options.act_qmax);
  QuantizationSpec activation;
  activation.dtype = DType::kInt8;
  activation.observer_or_fake_quant_ctr.name = options.is_dynamic ? "placeholder" : "histogram";
  activation.observer_or_fake_quant_ctr.eps = kBackendEps;
  activation.quant_min = options.act_qmin;
  activation.quant_max = options.act_qmax;
  activation.qscheme = QScheme::kPerTensorAffine;
  activation.is_dynamic = options.is_dynamic;
  return activation;
}

}  // namespace

QuantizationConfig get_symmetric_quantization_config(const SymmetricOptions& options) {
  check_range("act_qmin .. act_qmax", options.act_qmin, options.act_qmax);
  check_range("weight_qmin .. weight_qmax", options.weight_qmin, options.weight_qmax);
  if (options.is_weight_only && options.is_dynamic)
    throw Error("quantizer", "is_weight_only", "got true beside is_dynamic, want one of them; weight-only leaves activations float");
  if (options.is_weight_only && options.act_observer)
    throw Error("quantizer", "act_observer",
                fmt::format("got {} beside is_weight_only, want one of them; activations stay float", options.act_observer->name));
  QuantizationConfig config;
  QuantizationSpec weight = symmetric_weight_spec(options);
  if (options.weight_observer) choose_observer(weight, *options.weight_observer, "weight_observer");
  config.weight = weight;
  if (options.is_weight_only) return config;
  QuantizationSpec activation = activation_spec(options);
  if (options.act_observer) choose_observer(activation, *options.act_observer, "act_observer");
  config.input_activation = activation;
  if (!options.is_dynamic) config.output_activation = config.input_activation;
  return config;
}

}  // namespace octet

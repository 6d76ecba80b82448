// Builds the symmetric configurations.
#include "quantizers/xnnpack/config.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "quantizers/common/qat_config.h"
#include "quantizers/common/weight_only.h"

namespace octet {

namespace {

void check_range(const char* what, int64_t min, int64_t max) {
  if (min > 0 || max < 0 || min >= max || min < -128 || max > 127)
    throw Error(
        "quantizer", what,
        fmt::format("not a range within -128 .. 127 that contains 0, got {} .. {}", min, max));
}

// Weights that the peer has: per channel or per tensor, 8 bits, with a range of one's own.
QuantizationSpec peer_weight_spec(const SymmetricOptions& options) {
  QuantizationSpec weight;
  weight.dtype = DType::kInt8;
  weight.observer_or_fake_quant_ctr.name =
      weight_observer_name(options.own.search_weight_ranges, options.is_per_channel);
  weight.observer_or_fake_quant_ctr.eps = kBackendEps;
  weight.quant_min = options.weight_qmin;
  weight.quant_max = options.weight_qmax;
  weight.qscheme =
      options.is_per_channel ? QScheme::kPerChannelSymmetric : QScheme::kPerTensorSymmetric;
  weight.ch_axis = 0;
  return weight;
}

// A narrower weight_qmin .. weight_qmax than the bits have is taken over; the default one means all
// that they have.
QuantizationSpec symmetric_weight_spec(const SymmetricOptions& options) {
  const OwnOptions& own = options.own;
  const bool is_peer =
      !own.is_weight_only && own.weight_bits == 8 && own.group_size.value_or(0) == 0;
  if (is_peer) return peer_weight_spec(options);
  QuantizationSpec weight = weight_spec(
      {own.weight_bits, options.is_per_channel, own.group_size, own.search_weight_ranges});
  const SymmetricOptions defaults;
  if (options.weight_qmin == defaults.weight_qmin && options.weight_qmax == defaults.weight_qmax)
    return weight;
  if (own.weight_bits == 4 &&
      (options.weight_qmin < *weight.quant_min || options.weight_qmax > *weight.quant_max))
    throw Error("quantizer", "weight_qmin .. weight_qmax",
                fmt::format("4-bit weights lie within -8 .. 7, got {} .. {}", options.weight_qmin,
                            options.weight_qmax));
  weight.quant_min = options.weight_qmin;
  weight.quant_max = options.weight_qmax;
  return weight;
}

QuantizationSpec activation_spec(const SymmetricOptions& options) {
  if (options.is_dynamic && options.own.is_per_token)
    return per_token_spec(DType::kInt8, options.act_qmin, options.act_qmax);
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

QuantizationConfig get_symmetric_quantization_config(const SymmetricOptions& given) {
  SymmetricOptions options = given;
  check_range("act_qmin .. act_qmax", options.act_qmin, options.act_qmax);
  if (options.reduce_range) {
    const IntegerRange reduced =
        reduced_range(options.own, DType::kInt8, {options.act_qmin, options.act_qmax});
    options.act_qmin = reduced.min;
    options.act_qmax = reduced.max;
    check_range("reduce_range of act_qmin .. act_qmax", options.act_qmin, options.act_qmax);
  }
  check_range("weight_qmin .. weight_qmax", options.weight_qmin, options.weight_qmax);
  QuantizationConfig config = own_config(options.own, symmetric_weight_spec(options),
                                         activation_spec(options), !options.is_dynamic);
  return options.is_qat ? to_qat_config(std::move(config), options.own) : config;
}

}  // namespace octet

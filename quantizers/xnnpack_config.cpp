// Builds the symmetric configurations.
#include "quantizers/xnnpack_config.h"

#include <fmt/format.h>

#include "core/error.h"

namespace octet {

namespace {

void check_range(const char* what, int64_t min, int64_t max) {
  if (min > 0 || max < 0 || min >= max || min < -128 || max > 127)
    throw Error("quantizer", what, fmt::format("not a range within -128 .. 127 that contains 0, got {} .. {}", min, max));
}

}  // namespace

QuantizationConfig get_symmetric_quantization_config(const SymmetricOptions& options) {
  check_range("act_qmin .. act_qmax", options.act_qmin, options.act_qmax);
  check_range("weight_qmin .. weight_qmax", options.weight_qmin, options.weight_qmax);
  QuantizationSpec activation;
  activation.dtype = DType::kInt8;
  activation.observer_or_fake_quant_ctr.name = options.is_dynamic ? "placeholder" : "histogram";
  activation.observer_or_fake_quant_ctr.eps = kBackendEps;
  activation.quant_min = options.act_qmin;
  activation.quant_max = options.act_qmax;
  activation.qscheme = QScheme::kPerTensorAffine;
  activation.is_dynamic = options.is_dynamic;

  QuantizationSpec weight;
  weight.dtype = DType::kInt8;
  weight.observer_or_fake_quant_ctr.name = options.is_per_channel ? "per_channel_min_max" : "min_max";
  weight.observer_or_fake_quant_ctr.eps = kBackendEps;
  weight.quant_min = options.weight_qmin;
  weight.quant_max = options.weight_qmax;
  weight.qscheme = options.is_per_channel ? QScheme::kPerChannelSymmetric : QScheme::kPerTensorSymmetric;
  weight.ch_axis = 0;

  QuantizationConfig config;
  config.input_activation = activation;
  if (!options.is_dynamic) config.output_activation = activation;
  config.weight = weight;
  return config;
}

}  // namespace octet

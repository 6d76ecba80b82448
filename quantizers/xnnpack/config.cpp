// Builds the symmetric configurations.
#include "quantizers/xnnpack/config.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "quantizers/common/weight_only.h"

namespace octet {

namespace {

void check_range(const char* what, int64_t min, int64_t max) {
  if (min > 0 || max < 0 || min >= max || min < -128 || max > 127)
    throw Error(
        "quantizer", what,
        fmt::format("not a range within -128 .. 127 that contains 0, got {} .. {}", min, max));
}

// A weight_qmin .. weight_qmax narrower than the bits is kept; the default means the full range.
QuantizationSpec symmetric_weight_spec(const SymmetricOptions& options) {
  const OwnOptions& own = options.own;
  if (has_plain_weights(own))
    return plain_weight_spec(own, options.is_per_channel,
                             {options.weight_qmin, options.weight_qmax});
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
  QuantizationConfig config =
      own_config(options.own, symmetric_weight_spec(options),
                 activation_spec(options.own, DType::kInt8, {options.act_qmin, options.act_qmax},
                                 options.is_dynamic),
                 !options.is_dynamic);
  return options.is_qat ? to_qat_config(std::move(config), options.own) : config;
}

}  // namespace octet

#include "quantizers/common/extra_options.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "annotate/annotation/qparams.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/observer.h"
#include "core/base/error.h"
#include "quantizers/common/weight_only.h"

namespace octet {
namespace {

// Sets the spec's observer; the spec's eps stays unless the choice has one. Throws
// Error("quantizer", option, ...) for a spec whose scale does not come from data (dynamic, groups),
// for observers that find no range, and when the observer does not fit the spec or has bad
// arguments.
void choose_observer(QuantizationSpec& spec, const ObserverChoice& choice, const char* option) {
  const auto refuse = [&](const std::string& message) {
    throw Error("quantizer", option, message);
  };
  if (spec.is_dynamic)
    refuse(fmt::format(
        "got {} together with is_dynamic, want one of them; dynamic activations have no observer",
        choice.name));
  if (spec.observer_or_fake_quant_ctr.affine)
    refuse(fmt::format(
        "got {} together with groups of weights, want one of them; the scales of groups come "
        "from their minimum and maximum",
        choice.name));
  if (choice.affine)
    refuse(
        fmt::format("got {}, want an observer of tensors or channels, e.g. mse or per_channel_mse",
                    choice.name));
  const std::optional<double> eps = choice.eps ? choice.eps : spec.observer_or_fake_quant_ctr.eps;
  spec.observer_or_fake_quant_ctr = choice;
  spec.observer_or_fake_quant_ctr.eps = eps;
  std::shared_ptr<Observer> observer;
  try {
    observer = make_observer(observer_args(spec));
  } catch (const Error& error) {
    refuse(error.without_stage());
  }
  if (!observer->keeps_state())
    refuse(fmt::format("got {}, which learns no range; want e.g. histogram, mse or percentile",
                       choice.name));
}

void fake_quantize(QuantizationSpec& spec, const std::optional<ObserverChoice>& chosen,
                   const OwnOptions& options) {
  ObserverChoice& choice = spec.observer_or_fake_quant_ctr;
  if (choice.name.find("fake_quant") != std::string::npos) return;
  const bool is_learned = options.learns_ranges && !spec.is_dynamic;
  if (choice.affine) {
    choice.name = "affine_fake_quantize";
    choice.averaging_constant = 1;
    choice.affine->has_16_bit_scales = false;  // rounding would hide small changes of the weights
  } else if (chosen) {
    choice.name =
        fmt::format("{}({})", is_learned ? "lsq_fake_quantize" : "fake_quantize", choice.name);
  } else if (spec.is_dynamic) {
    choice.name = "fake_quantize";
    choice.averaging_constant = 1;
  } else if (spec.dtype == DType::kInt16 && !is_learned) {
    // the fused op's least scale is 6.1e-5
    choice.name = fmt::format("fake_quantize({})", moving_average_name(*spec.qscheme));
  } else {
    choice.name = is_learned ? "lsq_fake_quantize" : "fused_moving_avg_obs_fake_quantize";
  }
}

}  // namespace

IntegerRange reduced_range(const OwnOptions& options, DType dtype, IntegerRange range) {
  if (options.act_observer && options.act_observer->reduce_range) return range;
  return resolve_quant_range(dtype, range.min, range.max, true, "reduce_range");
}

std::string weight_observer_name(bool search_weight_ranges, bool is_per_channel) {
  if (search_weight_ranges) return is_per_channel ? "per_channel_mse" : "weight_mse";
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

namespace {

void check_activation_bits(const OwnOptions& options, bool is_dynamic) {
  constexpr const char* kOption = "activation_bits";
  if (options.activation_bits != 8 && options.activation_bits != 16)
    throw Error("quantizer", kOption, fmt::format("got {}, want 8 or 16", options.activation_bits));
  if (options.activation_bits == 16 && (is_dynamic || options.is_weight_only))
    throw Error("quantizer", kOption,
                fmt::format("got 16 together with {}, want one of them; 16 bits are static",
                            is_dynamic ? "is_dynamic" : "is_weight_only"));
}

// Without kBackendEps, which would be too coarse a step.
QuantizationSpec int16_spec() {
  QuantizationSpec activation;
  activation.dtype = DType::kInt16;
  activation.observer_or_fake_quant_ctr.name = "min_max";
  activation.quant_min = -32767;
  activation.quant_max = 32767;
  activation.qscheme = QScheme::kPerTensorSymmetric;
  return activation;
}

}  // namespace

QuantizationSpec activation_spec(const OwnOptions& options, DType dtype, IntegerRange range,
                                 bool is_dynamic) {
  check_activation_bits(options, is_dynamic);
  if (options.activation_bits == 16) return int16_spec();
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
    throw Error("quantizer", "is_weight_only",
                "got true together with is_dynamic, want one of them; weight-only leaves "
                "activations float");
  if (options.is_weight_only && options.act_observer)
    throw Error(
        "quantizer", "act_observer",
        fmt::format("got {} together with is_weight_only, want one of them; activations stay float",
                    options.act_observer->name));
  if (weight.dtype == DType::kInt16 &&
      (options.is_weight_only || activation.dtype != DType::kInt16))
    throw Error("quantizer", "weight_bits",
                "got 16 without activation_bits 16, want both; no kernel multiplies 16-bit weights "
                "by other activations");
  QuantizationConfig config;
  if (options.weight_observer) choose_observer(weight, *options.weight_observer, "weight_observer");
  config.weight = std::move(weight);
  if (options.is_weight_only) return config;
  if (options.act_observer) choose_observer(activation, *options.act_observer, "act_observer");
  config.input_activation = std::move(activation);
  if (outputs) config.output_activation = config.input_activation;
  return config;
}

QuantizationConfig to_qat_config(QuantizationConfig config, const OwnOptions& options) {
  if (config.input_activation)
    fake_quantize(*config.input_activation, options.act_observer, options);
  if (config.output_activation)
    fake_quantize(*config.output_activation, options.act_observer, options);
  if (config.weight) fake_quantize(*config.weight, options.weight_observer, options);
  config.is_qat = true;
  return config;
}

}  // namespace octet

#include "annotate/observers/data_free.h"

#include <algorithm>

#include <fmt/format.h>

#include "annotate/annotation/qparams.h"
#include "core/base/error.h"
#include "core/base/user_code.h"

namespace octet {
namespace {

// Placeholders accept any dtype, including floats, which have no range.
IntegerRange placeholder_range(const ObserverArgs& args) {
  if (!is_integer(args.dtype) && !args.quant_min) return {0, 0};
  return resolve_quant_range(args.dtype, args.quant_min, args.quant_max, args.reduce_range,
                             args.choice.name);
}

ObserverArgs args_of(const FixedQParamsQuantizationSpec& spec) {
  ObserverArgs args{.dtype = spec.dtype,
                    .quant_min = spec.quant_min,
                    .quant_max = spec.quant_max,
                    .ch_axis = {},
                    .choice = {}};
  args.qscheme = spec.qscheme.value_or(QScheme::kPerTensorAffine);
  args.choice.name = "fixed";
  return args;
}

ObserverArgs args_of(const DerivedQuantizationSpec& spec) {
  ObserverArgs args{.dtype = spec.dtype,
                    .quant_min = spec.quant_min,
                    .quant_max = spec.quant_max,
                    .ch_axis = spec.ch_axis,
                    .is_dynamic = spec.is_dynamic,
                    .choice = {}};
  args.qscheme = spec.qscheme.value_or(spec.ch_axis ? QScheme::kPerChannelSymmetric
                                                    : QScheme::kPerTensorSymmetric);
  args.choice.name = "derived";
  return args;
}

}  // namespace

PlaceholderObserver::PlaceholderObserver(ObserverArgs args)
    : DataFreeObserver(args, placeholder_range(args)) {}

QParams PlaceholderObserver::calculate_qparams() const {
  throw Error("convert", args_.choice.name,
              "a placeholder observer has no scale; use it for dynamic quantization or float16, or "
              "choose min_max");
}

NoopObserver::NoopObserver(ObserverArgs args) : DataFreeObserver(args, placeholder_range(args)) {
  if (args_.is_dynamic)
    throw Error("prepare", args_.choice.name,
                "this observer cannot serve dynamic quantization; use placeholder");
}

QParams NoopObserver::calculate_qparams() const {
  throw Error("convert", args_.choice.name,
              "a noop observer has no scale; use it for float16, or choose min_max");
}

FixedQParamsObserver::FixedQParamsObserver(const FixedQParamsQuantizationSpec& spec)
    : DataFreeObserver(args_of(spec), resolve_quant_range(spec.dtype, spec.quant_min,
                                                          spec.quant_max, false, "fixed")),
      scale_(spec.scale),
      zero_point_(spec.zero_point) {}

QParams FixedQParamsObserver::calculate_qparams() const {
  QParams result;
  result.scale = {static_cast<float>(scale_)};
  result.zero_point = {zero_point_};
  result.zero_point_dtype = DType::kInt32;
  return result;
}

DerivedObserver::DerivedObserver(const DerivedQuantizationSpec& spec,
                                 std::vector<std::shared_ptr<Observer>> sources)
    : DataFreeObserver(args_of(spec), resolve_quant_range(spec.dtype, spec.quant_min,
                                                          spec.quant_max, false, "derived")),
      derive_name_(spec.derive_name),
      derive_(spec.derive_qparams_fn),
      sources_(std::move(sources)) {}

QParams DerivedObserver::calculate_qparams() const {
  const DerivedQParams derived =
      in_user_code("convert", "", fmt::format("the derive function \"{}\"", derive_name_),
                   [&] { return derive_(sources_); });
  QParams result;
  result.scale = derived.scale;
  result.zero_point = derived.zero_point;
  result.axis = is_per_channel(args_.qscheme) ? args_.ch_axis.value_or(0) : -1;
  check_qparams(result, {quant_min_, quant_max_},
                fmt::format("the derive function \"{}\"", derive_name_));
  if (result.axis < 0 && result.scale.size() != 1)
    throw Error(
        "convert", "",
        fmt::format("the derive function \"{}\" returned {} scales for a per-tensor spec, want "
                    "1; set a per-channel qscheme and ch_axis",
                    derive_name_, result.scale.size()));
  return result;
}

bool DerivedObserver::replace_source(const std::shared_ptr<Observer>& before,
                                     const std::shared_ptr<Observer>& now) {
  bool is_source = false;
  for (std::shared_ptr<Observer>& source : sources_) {
    if (source != before) continue;
    source = now;
    is_source = true;
  }
  return is_source;
}

bool DerivedObserver::has_data() const {
  return std::ranges::all_of(
      sources_, [](const std::shared_ptr<Observer>& source) { return source->has_data(); });
}

RecordingObserver::RecordingObserver(ObserverArgs args) : Observer(args, IntegerRange{0, 0}) {
  if (args_.is_dynamic)
    throw Error("prepare", args_.choice.name,
                "this observer cannot serve dynamic quantization; use placeholder");
}

QParams RecordingObserver::calculate_qparams() const {
  throw Error("convert", args_.choice.name,
              "a recording observer has no scale; read its tensors, or choose min_max");
}

void RecordingObserver::merge(const Observer& other) {
  check_mergeable(other);
  const std::vector<at::Tensor> theirs = dynamic_cast<const RecordingObserver&>(other).tensors_;
  tensors_.insert(tensors_.end(), theirs.begin(), theirs.end());
}

}  // namespace octet

#include "annotate/observers/observer.h"

#include <algorithm>
#include <typeinfo>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/observers/affine.h"
#include "annotate/observers/clipping.h"
#include "annotate/observers/data_free.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/histogram.h"
#include "annotate/observers/learnable_fake_quantize.h"
#include "annotate/observers/min_max.h"
#include "core/base/error.h"

namespace octet {
namespace {

struct ObserverKind {
  std::string name;
  ObserverScope scope;
  ObserverMaker make;
  bool is_wrapper = false;  // takes an observer in parentheses after its name
};

template <typename Kind>
std::shared_ptr<Observer> make(const ObserverArgs& args) {
  return std::make_shared<Kind>(args);
}

template <typename Kind, Averaging averaging>
std::shared_ptr<Observer> make_averaging(const ObserverArgs& args) {
  return std::make_shared<Kind>(args, averaging);
}

template <AffineObserver::Kind kind>
std::shared_ptr<Observer> make_affine(const ObserverArgs& args) {
  return std::make_shared<AffineObserver>(args, kind);
}

std::shared_ptr<Observer> make_per_channel_mse(const ObserverArgs& args) {
  return std::make_shared<WeightMseObserver>(args, "weight_mse");
}

// clang-format off
const std::vector<ObserverKind> kBuiltIn = {
    {"min_max",                            ObserverScope::kTensor,  make_averaging<MinMaxObserver, Averaging::kRunning>},
    {"moving_average_min_max",             ObserverScope::kTensor,  make_averaging<MinMaxObserver, Averaging::kMoving>},
    {"per_channel_min_max",                ObserverScope::kChannel, make_averaging<PerChannelMinMaxObserver, Averaging::kRunning>},
    {"moving_average_per_channel_min_max", ObserverScope::kChannel, make_averaging<PerChannelMinMaxObserver, Averaging::kMoving>},
    {"whole_zero_point_min_max",           ObserverScope::kChannel, make<WholeZeroPointObserver>},
    {"histogram",                          ObserverScope::kTensor,  make<HistogramObserver>},
    {"percentile",                         ObserverScope::kTensor,  make<PercentileObserver>},
    {"per_channel_percentile",             ObserverScope::kChannel, make<PerChannelPercentileObserver>},
    {"mse",                                ObserverScope::kTensor,  make<MseObserver>},
    {"weight_mse",                         ObserverScope::kEither,  make<WeightMseObserver>},
    {"per_channel_mse",                    ObserverScope::kChannel, make_per_channel_mse},
    {"placeholder",                        ObserverScope::kEither,  make<PlaceholderObserver>},
    {"noop",                               ObserverScope::kEither,  make<NoopObserver>},
    {"recording",                          ObserverScope::kEither,  make<RecordingObserver>},
    {"fake_quantize",                      ObserverScope::kEither,  make_fake_quantize, true},
    {"fused_moving_avg_obs_fake_quantize", ObserverScope::kEither,  make_fused_fake_quantize, true},
    {"learnable_fake_quantize",            ObserverScope::kEither,  make_learnable_fake_quantize, true},
    {"lsq_fake_quantize",                  ObserverScope::kEither,  make_lsq_fake_quantize, true},
    {"affine_fake_quantize",               ObserverScope::kTensor,  make_affine_fake_quantize, true},
    {"affine_min_max",                     ObserverScope::kTensor,  make_affine<AffineObserver::Kind::kMinMax>},
    {"affine_moving_average_min_max",      ObserverScope::kTensor,  make_affine<AffineObserver::Kind::kMovingAverage>},
    {"affine_mse",                         ObserverScope::kTensor,  make_affine<AffineObserver::Kind::kMse>},
    {"affine_placeholder",                 ObserverScope::kTensor,  make_affine<AffineObserver::Kind::kPlaceholder>},
};
// clang-format on

// The built-in kinds, then those that were registered.
std::vector<ObserverKind>& observer_kinds() {
  static std::vector<ObserverKind> kinds = kBuiltIn;
  return kinds;
}

const ObserverKind& kind_of(const std::string& name) {
  const WrappedName split = split_observer_name(name);
  for (const ObserverKind& kind : observer_kinds()) {
    if (kind.name == name) return kind;
    if (kind.is_wrapper && kind.name == split.outer && !split.inner.empty() &&
        !kind_of(split.inner).is_wrapper)
      return kind;
  }
  throw Error("prepare", fmt::format("observer \"{}\"", name),
              fmt::format("unknown, want one of {}", fmt::join(observer_names(), ", ")));
}

ObserverScope scope_of(const std::string& name) {
  const WrappedName split = split_observer_name(name);
  const ObserverKind& kind = kind_of(name);
  return kind.is_wrapper && !split.inner.empty() ? kind_of(split.inner).scope : kind.scope;
}

std::vector<QParams> qparams_of(const std::vector<std::shared_ptr<Observer>>& observers) {
  std::vector<QParams> result;
  for (const std::shared_ptr<Observer>& observer : observers)
    result.push_back(observer->calculate_qparams());
  return result;
}

// Applies `combine` element by element; a vector of one element is broadcast.
std::vector<float> combine_scales(const std::vector<QParams>& qparams,
                                  float (*combine)(float, float)) {
  size_t channels = 1;
  for (const QParams& q : qparams) channels = std::max(channels, q.scale.size());
  std::vector<float> result(channels);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < qparams.size(); ++i) {
      const std::vector<float>& scale = qparams[i].scale;
      if (scale.size() != 1 && scale.size() != channels)
        throw Error(
            "convert", "derived",
            fmt::format("scales of different lengths, got {} and {}", scale.size(), channels));
      const float value = scale.size() == 1 ? scale[0] : scale[c];
      result[c] = i == 0 ? value : combine(result[c], value);
    }
  }
  return result;
}

DerivedQParams product_of_scales(const std::vector<std::shared_ptr<Observer>>& observers) {
  DerivedQParams result{
      combine_scales(qparams_of(observers), [](float a, float b) { return a * b; }), {}};
  result.zero_point.assign(result.scale.size(), 0);
  return result;
}

DerivedQParams sum_of_scales(const std::vector<std::shared_ptr<Observer>>& observers) {
  const std::vector<QParams> qparams = qparams_of(observers);
  DerivedQParams result{combine_scales(qparams, [](float a, float b) { return a + b; }),
                        qparams.front().zero_point};
  if (result.zero_point.size() == 1)
    result.zero_point.resize(result.scale.size(), result.zero_point[0]);
  return result;
}

struct DeriveRow {
  std::string name;
  DeriveQParamsFn derive;
};

// The built-in functions, then those that were registered.
std::vector<DeriveRow>& rows() {
  static std::vector<DeriveRow> all = {{"product_of_scales", product_of_scales},
                                       {"sum_of_scales", sum_of_scales}};
  return all;
}

}  // namespace

Observer::Observer(ObserverArgs args)
    : Observer(args, resolve_quant_range(args.dtype, args.quant_min, args.quant_max,
                                         args.reduce_range, args.choice.name)) {}

QParamsTarget Observer::target() const {
  return {.dtype = args_.dtype,
          .qscheme = args_.qscheme,
          .quant_min = quant_min_,
          .quant_max = quant_max_,
          .has_custom_range = args_.quant_min.has_value(),
          .eps = eps(),
          .finest = args_.finest_scales,
          .axis = args_.ch_axis.value_or(0)};
}

float Observer::eps() const { return static_cast<float>(args_.choice.eps.value_or(kFloatEps)); }

void Observer::check_mergeable(const Observer& other) const {
  const std::string subject = fmt::format("observer \"{}\"", args_.choice.name);
  const ObserverChoice& theirs = other.args_.choice;
  if (typeid(*this) != typeid(other) || theirs.name != args_.choice.name)
    throw Error("state", subject,
                fmt::format("observers of different kinds cannot be merged, got {}", theirs.name));
  if (other.args_.ch_axis != args_.ch_axis || theirs.bins != args_.choice.bins ||
      theirs.averaging_constant != args_.choice.averaging_constant ||
      theirs.affine != args_.choice.affine || theirs.percentile != args_.choice.percentile)
    throw Error("state", subject,
                "observers with different channel axis, bins, averaging constant, granularity or "
                "percentile cannot be merged");
}

at::Tensor Observer::forward_part(const at::Tensor& x, const at::Tensor& ends, double) {
  if (ends.defined()) observe(ends);
  return x;
}

void Observer::merge(const Observer&) {
  throw Error("state", fmt::format("observer \"{}\"", args_.choice.name),
              "cannot be merged; calibrate it on one machine");
}

void register_observer(const std::string& name, ObserverScope scope, ObserverMaker maker) {
  const std::vector<std::string> known = observer_names();
  if (std::ranges::find(known, name) != known.end())
    throw Error("prepare", fmt::format("observer \"{}\"", name),
                "the name is taken; choose another one");
  observer_kinds().push_back({name, scope, std::move(maker)});
}

std::shared_ptr<Observer> make_observer(const ObserverArgs& args) {
  return kind_of(args.choice.name).make(args);
}

std::vector<std::string> observer_names() {
  std::vector<std::string> names;
  for (const ObserverKind& kind : observer_kinds()) names.emplace_back(kind.name);
  return names;
}

ObserverArgs observer_args(const QuantizationSpec& spec) {
  const ObserverScope scope = scope_of(spec.observer_or_fake_quant_ctr.name);
  ObserverArgs args{.dtype = spec.dtype,
                    .quant_min = spec.quant_min,
                    .quant_max = spec.quant_max,
                    .ch_axis = {},
                    .is_dynamic = spec.is_dynamic,
                    .reduce_range = spec.observer_or_fake_quant_ctr.reduce_range,
                    .choice = spec.observer_or_fake_quant_ctr};
  args.qscheme = spec.qscheme.value_or(
      scope == ObserverScope::kChannel ? QScheme::kPerChannelAffine : QScheme::kPerTensorAffine);
  if (scope != ObserverScope::kTensor) args.ch_axis = spec.ch_axis;
  return args;
}

std::shared_ptr<Observer> make_observer(const FixedQParamsQuantizationSpec& spec) {
  return std::make_shared<FixedQParamsObserver>(spec);
}

std::shared_ptr<Observer> make_observer(const DerivedQuantizationSpec& spec,
                                        std::vector<std::shared_ptr<Observer>> sources) {
  return std::make_shared<DerivedObserver>(spec, std::move(sources));
}

std::vector<std::string> derive_fn_names() {
  std::vector<std::string> names;
  for (const DeriveRow& row : rows()) names.push_back(row.name);
  return names;
}

DeriveQParamsFn find_derive_fn(std::string_view name) {
  for (const DeriveRow& row : rows())
    if (row.name == name) return row.derive;
  return nullptr;
}

void register_derive_fn(const std::string& name, DeriveQParamsFn derive) {
  const std::string subject = fmt::format("derive function \"{}\"", name);
  if (!derive) throw Error("prepare", subject, "got no function; register one");
  if (find_derive_fn(name))
    throw Error("prepare", subject, "the name is taken; choose another one");
  rows().push_back({name, std::move(derive)});
}

DerivedQuantizationSpec derived_by(const std::string& name, DType dtype,
                                   std::optional<int> ch_axis) {
  DerivedQuantizationSpec spec;
  spec.derive_name = name;
  spec.derive_qparams_fn = find_derive_fn(name);
  if (!spec.derive_qparams_fn)
    throw Error("annotate", fmt::format("derive function \"{}\"", name),
                fmt::format("unknown, want one of {}", fmt::join(derive_fn_names(), ", ")));
  spec.dtype = dtype;
  spec.qscheme = ch_axis ? QScheme::kPerChannelSymmetric : QScheme::kPerTensorSymmetric;
  spec.ch_axis = ch_axis;
  return spec;
}

}  // namespace octet

#include "annotate/observers/observer.h"

#include <algorithm>
#include <typeinfo>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/observers/affine_fake_quantize.h"
#include "annotate/observers/data_free.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/histogram.h"
#include "annotate/observers/learnable_fake_quantize.h"
#include "annotate/observers/min_max.h"
#include "annotate/observers/mse.h"
#include "annotate/observers/percentile.h"
#include "annotate/observers/recording.h"
#include "core/base/error.h"

namespace octet {
namespace {

struct ObserverKind {
  std::string name;
  ObserverScope scope;
  ObserverMaker make;
  bool is_wrapper = false;  // takes an observer in parentheses behind its name
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
    {"per_channel_mse",                    ObserverScope::kChannel, make<PerChannelMseObserver>},
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
  if (std::find(known.begin(), known.end(), name) != known.end())
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

}  // namespace octet

// Compiled with -ffp-contract=off (core/CMakeLists.txt): the averages have torchao's bits.
#include "annotate/observers/min_max.h"

#include <algorithm>
#include <cmath>

#include <ATen/Parallel.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>
#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

void check_finite(std::span<const float> low, std::span<const float> high) {
  for (size_t i = 0; i < low.size(); ++i) {
    if (std::isfinite(low[i]) && std::isfinite(high[i])) continue;
    if (std::isnan(low[i]) || std::isnan(high[i]))
      throw Error("calibrate", "", "the observed values hold NaN");
    throw Error("calibrate", "",
                "the observed values hold infinities, which give a min-max observer no scale; use "
                "the histogram observer, which leaves them out");
  }
}

void average(std::vector<float>& mean, std::span<const float> next, float constant) {
  for (size_t i = 0; i < mean.size(); ++i) {
    const float step = constant * (next[i] - mean[i]);
    mean[i] += step;
  }
}

// mean := next + weight * (mean - first)
void continue_average(std::vector<float>& mean, const std::vector<float>& next,
                      const std::vector<float>& first, double weight) {
  for (size_t i = 0; i < mean.size(); ++i)
    mean[i] = static_cast<float>(
        next[i] + weight * (static_cast<double>(mean[i]) - static_cast<double>(first[i])));
}

}  // namespace

void RunningRange::update(std::span<const float> low, std::span<const float> high) {
  OCTET_ASSERT(low.size() == high.size() && (min_.empty() || min_.size() == low.size()),
               "the number of ranges changed");
  check_finite(low, high);
  if (min_.empty()) {
    min_.assign(low.begin(), low.end());
    max_.assign(high.begin(), high.end());
  } else if (averaging_ == Averaging::kRunning) {
    for (size_t i = 0; i < min_.size(); ++i) min_[i] = std::min(low[i], min_[i]);
    for (size_t i = 0; i < max_.size(); ++i) max_[i] = std::max(high[i], max_[i]);
  } else {
    average(min_, low, constant_);
    average(max_, high, constant_);
  }
  if (averaging_ == Averaging::kRunning) return;
  if (batches_++ > 0) return;
  first_min_ = min_;
  first_max_ = max_;
}

void RunningRange::merge(const ObserverState& next, const std::string& subject) {
  if (next.min.empty()) return;
  if (min_.empty()) return set_state(next, subject);
  if (next.min.size() != min_.size() || next.max.size() != max_.size())
    throw Error("state", subject,
                fmt::format("the states differ in the number of ranges, got {}, want {}",
                            next.min.size(), min_.size()));
  if (averaging_ == Averaging::kRunning) return update(next.min, next.max);
  if (next.batches < 1 || next.first_min.size() != min_.size() ||
      next.first_max.size() != max_.size())
    throw Error("state", subject,
                "a moving average without its number of batches and first range cannot be merged; "
                "calibrate that part again");
  if (next.batches == 1) return update(next.min, next.max);
  const double weight =
      std::pow(1.0 - static_cast<double>(constant_), static_cast<double>(next.batches));
  continue_average(min_, next.min, next.first_min, weight);
  continue_average(max_, next.max, next.first_max, weight);
  batches_ += next.batches;
}

ObserverState RunningRange::state() const {
  return {.min = min_,
          .max = max_,
          .histogram = {},
          .batches = batches_,
          .first_min = first_min_,
          .first_max = first_max_};
}

void RunningRange::set_state(const ObserverState& state, const std::string& subject) {
  if (state.min.size() != state.max.size())
    throw Error("state", subject,
                fmt::format("the ends of the ranges differ in number, got {} and {}",
                            state.min.size(), state.max.size()));
  if (!state.first_min.empty() &&
      (state.first_min.size() != state.min.size() || state.first_max.size() != state.min.size()))
    throw Error("state", subject,
                fmt::format("wrong number of first ranges, got {}, want {}", state.first_min.size(),
                            state.min.size()));
  min_ = state.min;
  max_ = state.max;
  if (averaging_ == Averaging::kRunning) return;
  batches_ = state.batches;
  first_min_ = state.first_min;
  first_max_ = state.first_max;
}

RangeObserver::RangeObserver(ObserverArgs args, Averaging averaging)
    : Observer(std::move(args)), range_(averaging, args_.choice.averaging_constant) {}

QParams RangeObserver::calculate_qparams() const {
  if (!has_data())
    throw Error(
        "convert", "",
        "the observer saw no data, got 0 samples, want at least 1; calibrate before converting");
  return choose_qparams(range_.min(), range_.max(), target(), args_.choice.name);
}

void RangeObserver::merge(const Observer& next) {
  check_mergeable(next);
  range_.merge(next.state(), args_.choice.name);
}

MinMaxObserver::MinMaxObserver(ObserverArgs args, Averaging averaging)
    : RangeObserver(std::move(args), averaging) {
  if (is_per_channel(args_.qscheme))
    throw Error(
        "prepare", args_.choice.name,
        fmt::format("this observer works per tensor, got qscheme {}; use per_channel_min_max",
                    name_of(args_.qscheme)));
  if (args_.is_dynamic &&
      (averaging == Averaging::kRunning || args_.choice.averaging_constant != 1))
    throw Error("prepare", args_.choice.name,
                "this observer cannot serve dynamic quantization; use placeholder");
}

void MinMaxObserver::observe(const at::Tensor& x) {
  if (x.numel() == 0) return;
  const auto [low, high] = at::aminmax(x.detach());  // for any float dtype: exact in float32
  const float ends[2] = {static_cast<float>(low.item<double>()),
                         static_cast<float>(high.item<double>())};
  range_.update({&ends[0], 1}, {&ends[1], 1});
}

void MinMaxObserver::set_state(const ObserverState& state) {
  if (state.min.size() > 1)
    throw Error("state", args_.choice.name,
                fmt::format("wrong number of ranges, got {}, want 1", state.min.size()));
  RangeObserver::set_state(state);
}

PerChannelMinMaxObserver::PerChannelMinMaxObserver(ObserverArgs args, Averaging averaging)
    : RangeObserver(std::move(args), averaging) {
  if (!is_per_channel(args_.qscheme))
    throw Error("prepare", args_.choice.name,
                fmt::format("this observer works per channel, got qscheme {}; use min_max",
                            name_of(args_.qscheme)));
  if (args_.is_dynamic)
    throw Error("prepare", args_.choice.name,
                "this observer cannot serve dynamic quantization; use placeholder");
}

void PerChannelMinMaxObserver::observe(const at::Tensor& x) {
  if (x.numel() == 0) return;
  const int64_t axis = args_.ch_axis.value_or(0);
  const auto [low, high] = at::aminmax(channel_rows(x, axis), 1);
  const size_t count = static_cast<size_t>(low.numel());
  if (has_data() && range_.min().size() != count)
    throw Error("calibrate", "",
                fmt::format("the number of channels along dimension {} changed, got {}, want {}",
                            axis, count, range_.min().size()));
  const at::Tensor lows = low.contiguous();
  const at::Tensor highs = high.contiguous();
  range_.update({lows.const_data_ptr<float>(), count}, {highs.const_data_ptr<float>(), count});
}

QParams WholeZeroPointObserver::calculate_qparams() const {
  QParams result = PerChannelMinMaxObserver::calculate_qparams();
  for (float& zero_point : result.float_zero_point) zero_point = std::nearbyint(zero_point);
  return result;
}

at::Tensor channel_rows(const at::Tensor& x, int64_t axis) {
  if (axis >= x.dim())
    throw Error(
        "calibrate", "",
        fmt::format("ch_axis {} of a tensor of rank {}; want a smaller ch_axis", axis, x.dim()));
  const at::Tensor channels = x.detach().to(at::kFloat).transpose(0, axis);
  return channels.dim() == 1 ? channels.unsqueeze(1) : channels.flatten(1);
}

WeightObserver::WeightObserver(ObserverArgs args, const std::string& per_tensor)
    : Observer(std::move(args)) {
  const auto refuse = [this](const std::string& message) {
    throw Error("prepare", args_.choice.name, message);
  };
  if (!is_per_channel(args_.qscheme) && !per_tensor.empty())
    refuse(fmt::format("this observer works per channel, got qscheme {}; use {}",
                       name_of(args_.qscheme), per_tensor));
  if (args_.qscheme == QScheme::kPerChannelAffineFloatQParams)
    refuse(
        fmt::format("this observer has whole zero points, got qscheme {}; use per_channel_min_max",
                    name_of(args_.qscheme)));
  if (args_.is_dynamic) refuse("this observer cannot serve dynamic quantization; use placeholder");
  if (!is_integer(args_.dtype))
    refuse(fmt::format("this observer serves integer dtypes, got {}; use per_channel_min_max",
                       name_of(args_.dtype)));
}

void WeightObserver::observe(const at::Tensor& x) {
  if (x.numel() == 0) return;
  at::Tensor rows = channel_rows(x, args_.ch_axis.value_or(0)).clone(at::MemoryFormat::Contiguous);
  if (at::isnan(rows).any().item<bool>())
    throw Error("calibrate", "", "the observed values hold NaN");
  if (!at::isfinite(rows).all().item<bool>())
    throw Error("calibrate", "", "the observed values hold infinities, want finite numbers");
  const size_t channel = static_cast<size_t>(rows.size(1));
  const int64_t count = is_per_channel(args_.qscheme) ? rows.size(0) : 1;
  const std::span<float> values(rows.data_ptr<float>(), static_cast<size_t>(rows.numel()));
  std::vector<ValueRange> ranges(static_cast<size_t>(count));
  const size_t length = values.size() / ranges.size();
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (size_t i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      ranges[i] = choose_range(values.subspan(i * length, length), channel);
  });
  settle(values, channel, ranges);
  std::vector<float> min, max;
  for (const ValueRange& range : ranges) {
    min.push_back(range.min);
    max.push_back(range.max);
  }
  if (has_data() && (min != min_ || max != max_))
    throw Error(
        "calibrate", "",
        fmt::format(
            "{} looks at one constant tensor, got a second one; use moving_average_{}min_max "
            "for what changes from batch to batch",
            args_.choice.name, is_per_channel(args_.qscheme) ? "per_channel_" : ""));
  min_ = std::move(min);
  max_ = std::move(max);
}

void WeightObserver::settle(std::span<const float>, size_t, std::span<ValueRange>) const {}

QParams WeightObserver::calculate_qparams() const {
  if (!has_data())
    throw Error(
        "convert", "",
        "the observer saw no data, got 0 samples, want at least 1; calibrate before converting");
  return choose_qparams(min_, max_, target(), args_.choice.name);
}

void WeightObserver::set_state(const ObserverState& state) {
  if (state.min.size() != state.max.size())
    throw Error("state", args_.choice.name,
                fmt::format("got {} minima and {} maxima, want equal numbers", state.min.size(),
                            state.max.size()));
  min_ = state.min;
  max_ = state.max;
}

void WeightObserver::merge(const Observer& next) {
  check_mergeable(next);
  const WeightObserver& other = dynamic_cast<const WeightObserver&>(next);
  if (!other.has_data()) return;
  if (has_data() && (other.min_ != min_ || other.max_ != max_))
    throw Error("state", fmt::format("observer \"{}\"", args_.choice.name),
                "the two saw different tensors, want the same weights; calibrate the same model");
  min_ = other.min_;
  max_ = other.max_;
}

}  // namespace octet

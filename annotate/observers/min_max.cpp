#include "annotate/observers/min_max.h"

#include <cmath>

#include <ATen/ops/aminmax.h>
#include <fmt/format.h>

#include "annotate/observers/per_channel.h"
#include "core/base/error.h"

namespace octet {

MinMaxObserver::MinMaxObserver(ObserverArgs args, Averaging averaging)
    : Observer(std::move(args)), range_(averaging, args_.choice.averaging_constant) {
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
  const auto [low, high] = at::aminmax(x.detach());  // of any float dtype: exact in float32
  const float ends[2] = {static_cast<float>(low.item<double>()),
                         static_cast<float>(high.item<double>())};
  range_.update({&ends[0], 1}, {&ends[1], 1});
}

QParams MinMaxObserver::calculate_qparams() const {
  if (!has_data())
    throw Error(
        "convert", "",
        "the observer saw no data, got 0 samples, want at least 1; calibrate before converting");
  return choose_qparams(range_.min(), range_.max(), target(), args_.choice.name);
}

void MinMaxObserver::set_state(const ObserverState& state) {
  if (state.min.size() > 1)
    throw Error("state", args_.choice.name,
                fmt::format("wrong number of ranges, got {}, want 1", state.min.size()));
  range_.set_state(state, args_.choice.name);
}

void MinMaxObserver::merge(const Observer& next) {
  check_mergeable(next);
  range_.merge(next.state(), args_.choice.name);
}

PerChannelMinMaxObserver::PerChannelMinMaxObserver(ObserverArgs args, Averaging averaging)
    : Observer(std::move(args)), range_(averaging, args_.choice.averaging_constant) {
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

QParams PerChannelMinMaxObserver::calculate_qparams() const {
  if (!has_data())
    throw Error(
        "convert", "",
        "the observer saw no data, got 0 samples, want at least 1; calibrate before converting");
  return choose_qparams(range_.min(), range_.max(), target(), args_.choice.name);
}

QParams WholeZeroPointObserver::calculate_qparams() const {
  QParams result = PerChannelMinMaxObserver::calculate_qparams();
  for (float& zero_point : result.float_zero_point) zero_point = std::nearbyint(zero_point);
  return result;
}

void PerChannelMinMaxObserver::merge(const Observer& next) {
  check_mergeable(next);
  range_.merge(next.state(), args_.choice.name);
}

}  // namespace octet

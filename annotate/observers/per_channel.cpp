#include "annotate/observers/per_channel.h"

#include <ATen/Parallel.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>
#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {

at::Tensor channel_rows(const at::Tensor& x, int64_t axis) {
  if (axis >= x.dim())
    throw Error(
        "calibrate", "",
        fmt::format("ch_axis {} of a tensor of rank {}; want a smaller ch_axis", axis, x.dim()));
  const at::Tensor channels = x.detach().to(at::kFloat).transpose(0, axis);
  return channels.dim() == 1 ? channels.unsqueeze(1) : channels.flatten(1);
}

PerChannelObserver::PerChannelObserver(ObserverArgs args, const std::string& alternative)
    : Observer(std::move(args)) {
  const auto refuse = [this](const std::string& message) {
    throw Error("prepare", args_.choice.name, message);
  };
  if (!is_per_channel(args_.qscheme))
    refuse(fmt::format("this observer works per channel, got qscheme {}; use {}",
                       name_of(args_.qscheme), alternative));
  if (args_.qscheme == QScheme::kPerChannelAffineFloatQParams)
    refuse(
        fmt::format("this observer has whole zero points, got qscheme {}; use per_channel_min_max",
                    name_of(args_.qscheme)));
  if (args_.is_dynamic) refuse("this observer cannot serve dynamic quantization; use placeholder");
  if (!is_integer(args_.dtype))
    refuse(fmt::format("this observer serves integer dtypes, got {}; use per_channel_min_max",
                       name_of(args_.dtype)));
}

void PerChannelObserver::observe(const at::Tensor& x) {
  if (x.numel() == 0) return;
  at::Tensor rows = channel_rows(x, args_.ch_axis.value_or(0)).clone(at::MemoryFormat::Contiguous);
  if (at::isnan(rows).any().item<bool>())
    throw Error("calibrate", "", "the observed values hold NaN");
  if (!at::isfinite(rows).all().item<bool>())
    throw Error("calibrate", "", "the observed values hold infinities, want finite numbers");
  const size_t length = static_cast<size_t>(rows.size(1));
  float* values = rows.data_ptr<float>();
  std::vector<ValueRange> ranges(static_cast<size_t>(rows.size(0)));
  at::parallel_for(0, rows.size(0), 1, [&](int64_t begin, int64_t end) {
    for (size_t channel = static_cast<size_t>(begin); channel < static_cast<size_t>(end); ++channel)
      ranges[channel] = choose_range({values + channel * length, length});
  });
  settle({values, ranges.size() * length}, ranges);
  std::vector<float> min, max;
  for (const ValueRange& range : ranges) {
    min.push_back(range.min);
    max.push_back(range.max);
  }
  if (has_data() && (min != min_ || max != max_))
    throw Error(
        "calibrate", "",
        fmt::format("{} looks at one constant tensor, got a second one; use "
                    "moving_average_per_channel_min_max for what changes from batch to batch",
                    args_.choice.name));
  min_ = std::move(min);
  max_ = std::move(max);
}

void PerChannelObserver::settle(std::span<const float>, std::span<ValueRange>) const {}

QParams PerChannelObserver::calculate_qparams() const {
  if (!has_data())
    throw Error(
        "convert", "",
        "the observer saw no data, got 0 samples, want at least 1; calibrate before converting");
  return choose_qparams(min_, max_, target(), args_.choice.name);
}

void PerChannelObserver::set_state(const ObserverState& state) {
  if (state.min.size() != state.max.size())
    throw Error("state", args_.choice.name,
                fmt::format("got {} minima and {} maxima, want as many of both", state.min.size(),
                            state.max.size()));
  min_ = state.min;
  max_ = state.max;
}

void PerChannelObserver::merge(const Observer& next) {
  check_mergeable(next);
  const PerChannelObserver& other = dynamic_cast<const PerChannelObserver&>(next);
  if (!other.has_data()) return;
  if (has_data() && (other.min_ != min_ || other.max_ != max_))
    throw Error("state", fmt::format("observer \"{}\"", args_.choice.name),
                "the two saw different tensors, want the same weights; calibrate the same model");
  min_ = other.min_;
  max_ = other.max_;
}

}  // namespace octet

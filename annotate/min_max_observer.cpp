#include "annotate/min_max_observer.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/aminmax.h>
#include <fmt/format.h>

#include "core/error.h"

namespace octet {
namespace {

void update(float& low, float& high, float new_low, float new_high, bool first, Averaging averaging, double constant) {
  if (first) {
    low = new_low;
    high = new_high;
  } else if (averaging == Averaging::kRunning) {
    low = std::min(new_low, low);
    high = std::max(new_high, high);
  } else {
    const float c = static_cast<float>(constant);
    const float low_step = c * (new_low - low);
    const float high_step = c * (new_high - high);
    low += low_step;
    high += high_step;
  }
}

void check_finite(float low, float high) {
  if (std::isnan(low) || std::isnan(high)) throw Error("calibrate", "", "the observed values hold NaN");
  if (std::isinf(low) || std::isinf(high))
    throw Error("calibrate", "",
                "the observed values hold infinities, which give a min-max observer no scale; use the histogram observer, which leaves them out");
}

}  // namespace

MinMaxObserver::MinMaxObserver(ObserverArgs args, Averaging averaging) : Observer(std::move(args)), averaging_(averaging) {
  if (is_per_channel(args_.qscheme))
    throw Error("prepare", args_.choice.name,
                fmt::format("this observer works per tensor, got qscheme {}; use per_channel_min_max", name_of(args_.qscheme)));
  if (args_.is_dynamic && (averaging == Averaging::kRunning || args_.choice.averaging_constant != 1))
    throw Error("prepare", args_.choice.name, "this observer cannot serve dynamic quantization; use placeholder");
}

void MinMaxObserver::observe(const at::Tensor& x) {
  if (x.numel() == 0) return;
  const auto [low, high] = at::aminmax(x.detach().to(at::kFloat));
  check_finite(low.item<float>(), high.item<float>());
  update(min_, max_, low.item<float>(), high.item<float>(), !has_data_, averaging_, args_.choice.averaging_constant);
  has_data_ = true;
}

QParams MinMaxObserver::calculate_qparams() const {
  if (!has_data_) throw Error("convert", "", "the observer saw no data, got 0 samples, want at least 1; calibrate before converting");
  return choose_qparams({&min_, 1}, {&max_, 1}, target(), args_.choice.name);
}

ObserverState MinMaxObserver::state() const { return has_data_ ? ObserverState{{min_}, {max_}, {}} : ObserverState{}; }

void MinMaxObserver::set_state(const ObserverState& state) {
  has_data_ = !state.min.empty();
  if (!has_data_) return;
  if (state.min.size() != 1 || state.max.size() != 1)
    throw Error("state", args_.choice.name, fmt::format("wrong number of ranges, got {}, want 1", state.min.size()));
  min_ = state.min[0];
  max_ = state.max[0];
}

PerChannelMinMaxObserver::PerChannelMinMaxObserver(ObserverArgs args, Averaging averaging) : Observer(std::move(args)), averaging_(averaging) {
  if (!is_per_channel(args_.qscheme))
    throw Error("prepare", args_.choice.name, fmt::format("this observer works per channel, got qscheme {}; use min_max", name_of(args_.qscheme)));
  if (args_.is_dynamic) throw Error("prepare", args_.choice.name, "this observer cannot serve dynamic quantization; use placeholder");
}

void PerChannelMinMaxObserver::observe(const at::Tensor& x) {
  if (x.numel() == 0) return;
  const int64_t axis = args_.ch_axis.value_or(0);
  if (axis >= x.dim()) throw Error("calibrate", "", fmt::format("ch_axis {} of a tensor of rank {}; want a smaller ch_axis", axis, x.dim()));
  const at::Tensor channels = x.detach().to(at::kFloat).transpose(0, axis);
  const at::Tensor rows = channels.dim() == 1 ? channels.unsqueeze(1) : channels.flatten(1);
  auto [low, high] = at::aminmax(rows, 1);
  low = low.contiguous();
  high = high.contiguous();
  const size_t count = static_cast<size_t>(low.numel());
  if (!min_.empty() && min_.size() != count)
    throw Error("calibrate", "", fmt::format("the number of channels along dimension {} changed, got {}, want {}", axis, count, min_.size()));
  const bool first = min_.empty();
  if (first) {
    min_.resize(count);
    max_.resize(count);
  }
  for (size_t i = 0; i < count; ++i) {
    check_finite(low.data_ptr<float>()[i], high.data_ptr<float>()[i]);
    update(min_[i], max_[i], low.data_ptr<float>()[i], high.data_ptr<float>()[i], first, averaging_, args_.choice.averaging_constant);
  }
}

QParams PerChannelMinMaxObserver::calculate_qparams() const {
  if (min_.empty()) throw Error("convert", "", "the observer saw no data, got 0 samples, want at least 1; calibrate before converting");
  return choose_qparams(min_, max_, target(), args_.choice.name);
}

void PerChannelMinMaxObserver::set_state(const ObserverState& state) {
  if (state.min.size() != state.max.size())
    throw Error("state", args_.choice.name,
                fmt::format("the ends of the ranges differ in number, got {} and {}", state.min.size(), state.max.size()));
  min_ = state.min;
  max_ = state.max;
}

}  // namespace octet

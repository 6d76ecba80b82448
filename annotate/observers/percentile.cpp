#include "annotate/observers/percentile.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

constexpr int kHalvings = 60;

double checked_share(const ObserverChoice& choice) {
  if (!(choice.percentile > 0 && choice.percentile <= 100))
    throw Error("prepare", choice.name,
                fmt::format("percentile out of range, got {}, want more than 0 and at most 100",
                            choice.percentile));
  return choice.percentile / 100.0;
}

// Which share of a histogram lies below a value.
class Distribution {
 public:
  Distribution(std::span<const float> counts, double min, double max)
      : min_(min), width_((max - min) / static_cast<double>(counts.size())) {
    sums_.push_back(0);
    for (const float count : counts) sums_.push_back(sums_.back() + count);
  }

  double below(double value) const {
    const double place =
        std::clamp((value - min_) / width_, 0.0, static_cast<double>(sums_.size() - 1));
    const size_t bin = std::min(static_cast<size_t>(place), sums_.size() - 2);
    return (sums_[bin] + (place - static_cast<double>(bin)) * (sums_[bin + 1] - sums_[bin])) /
           sums_.back();
  }

 private:
  double min_;
  double width_;
  std::vector<double> sums_;
};

// Where a condition that holds from some value on begins to hold.
double first_value(double low, double high, const std::function<bool(double)>& holds) {
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = low + (high - low) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

// The value at `share` of a sorted list, between its neighbours.
float at_share(std::span<const float> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const size_t index = static_cast<size_t>(place);
  if (index + 1 >= sorted.size()) return sorted.back();
  const double rest = place - static_cast<double>(index);
  return static_cast<float>((1.0 - rest) * sorted[index] + rest * sorted[index + 1]);
}

}  // namespace

PercentileObserver::PercentileObserver(ObserverArgs args)
    : HistogramObserver(std::move(args), "per_channel_percentile") {
  checked_share(args_.choice);
}

HistogramObserver::Range PercentileObserver::choose_range() const {
  const double share = checked_share(args_.choice);
  const Range full{min(), max()};
  if (share == 1.0 || full.min == full.max) return full;
  const Distribution distribution(counts(), full.min, full.max);
  if (is_symmetric(args_.qscheme)) {
    const auto holds = [&](double size) {
      return distribution.below(size) - distribution.below(-size) >= share;
    };
    const float size = static_cast<float>(first_value(
        0, std::max(-static_cast<double>(full.min), static_cast<double>(full.max)), holds));
    return {std::max(full.min, -size), std::min(full.max, size)};
  }
  const double tail = (1.0 - share) / 2;
  const double low = first_value(full.min, full.max,
                                 [&](double value) { return distribution.below(value) >= tail; });
  const double high = first_value(
      full.min, full.max, [&](double value) { return distribution.below(value) >= 1.0 - tail; });
  return {static_cast<float>(low), std::max(static_cast<float>(low), static_cast<float>(high))};
}

PerChannelPercentileObserver::PerChannelPercentileObserver(ObserverArgs args)
    : PerChannelObserver(std::move(args), "percentile") {
  checked_share(args_.choice);
}

ValueRange PerChannelPercentileObserver::choose_range(std::span<float> values) const {
  const double share = checked_share(args_.choice);
  if (is_symmetric(args_.qscheme)) {
    for (float& value : values) value = std::abs(value);
    std::sort(values.begin(), values.end());
    const float size = at_share(values, share);
    return {-size, size};
  }
  std::sort(values.begin(), values.end());
  const double tail = (1.0 - share) / 2;
  return {at_share(values, tail), at_share(values, 1.0 - tail)};
}

}  // namespace octet

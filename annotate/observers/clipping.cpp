// Searches for ranges with the least error. Why clipping pays: of a million values, most lie in
// [-1, 1] and one is 10. The range [-10, 10] has steps of 20 / 255 = 0.078, and rounding to them
// costs 0.078^2 / 12 per value, 510 in all. The range [-1, 1] costs 5 for rounding and (10 - 1)^2 =
// 81 for the clipped value. The search compares such sums for ranges between the two.
#include "annotate/observers/clipping.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

constexpr int kHistogramOctaves = 11;  // down to one of 2048 bins
// weights have no far outliers; a range clipped too much is left after few values
constexpr int kWeightOctaves = 4;

// Ratio of errors below which clipping is worthwhile. Uniform random weights are above it, trained
// ones far below.
constexpr double kWorthwhile = 0.96;

ValueRange full_range(std::span<const float> values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

// A histogram whose outermost bins are limited to the counts of their neighbors; the rest is
// treated as values exactly at the ends, where clamps leave them.
struct EndsApart {
  std::vector<float> counts;
  float at_min = 0;
  float at_max = 0;

  explicit EndsApart(std::span<const float> all) : counts(all.begin(), all.end()) {
    const size_t last = counts.size() - 1;
    at_min = std::max(counts[0] - counts[1], 0.0f);
    counts[0] -= at_min;
    at_max = std::max(counts[last] - counts[last - 1], 0.0f);
    counts[last] -= at_max;
  }
};

// The values that quantization of `range` can represent.
Lattice lattice_of(const ValueRange& range, const QParamsTarget& target,
                   const std::string& subject) {
  const QParams qparams = choose_qparams({&range.min, 1}, {&range.max, 1}, target, subject);
  const int64_t zero_point = qparams.zero_point[0];
  return {qparams.scale[0], static_cast<double>(target.quant_min - zero_point),
          static_cast<double>(target.quant_max - zero_point)};
}

constexpr int kHalvings = 60;

double checked_share(const ObserverChoice& choice) {
  if (!(choice.percentile > 0 && choice.percentile <= 100))
    throw Error("prepare", choice.name,
                fmt::format("percentile out of range, got {}, want more than 0 and at most 100",
                            choice.percentile));
  return choice.percentile / 100.0;
}

// The share of a histogram below a value.
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

// The first value from which on a monotone condition holds.
double first_value(double low, double high, const std::function<bool(double)>& holds) {
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = low + (high - low) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

// The value at `share` of a sorted list, between its neighbors.
float at_share(std::span<const float> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const size_t index = static_cast<size_t>(place);
  if (index + 1 >= sorted.size()) return sorted.back();
  const double rest = place - static_cast<double>(index);
  return static_cast<float>((1.0 - rest) * sorted[index] + rest * sorted[index + 1]);
}

}  // namespace

HistogramObserver::Range MseObserver::choose_range() const {
  const double width = (static_cast<double>(max()) - static_cast<double>(min())) /
                       static_cast<double>(counts().size());
  if (!(width > 0.0)) return {min(), max()};
  const QParamsTarget wanted = target();
  const EndsApart parts(counts());
  const float ends[2] = {min(), max()};
  const RangeError error = [&](const ValueRange& range, double) {
    const Lattice lattice = lattice_of(range, wanted, args_.choice.name);
    return squared_error(parts.counts, min(), width, lattice) +
           parts.at_min * squared_error({&ends[0], 1}, lattice) +
           parts.at_max * squared_error({&ends[1], 1}, lattice);
  };
  const ValueRange found = least_error_range(
      {min(), max()}, {.is_symmetric = is_symmetric(args_.qscheme), .octaves = kHistogramOctaves},
      error);
  const Range peer = search_range();
  const ValueRange other{peer.min, peer.max};
  constexpr double kAny = std::numeric_limits<double>::infinity();
  return error(other, kAny) < error(found, kAny) ? peer : Range{found.min, found.max};
}

double WeightMseObserver::error(std::span<const float> values, size_t channel,
                                const ValueRange& range, double limit) const {
  return product_error(values, channel, lattice_of(range, target(), args_.choice.name), limit);
}

ValueRange WeightMseObserver::choose_range(std::span<float> values, size_t channel) const {
  return least_error_range(
      full_range(values), {.is_symmetric = is_symmetric(args_.qscheme), .octaves = kWeightOctaves},
      [&](const ValueRange& range, double limit) { return error(values, channel, range, limit); });
}

void WeightMseObserver::settle(std::span<const float> values, size_t channel,
                               std::span<ValueRange> chosen) const {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  const size_t length = values.size() / chosen.size();
  std::vector<ValueRange> full;
  double of_full = 0, of_chosen = 0;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::span<const float> part = values.subspan(i * length, length);
    full.push_back(full_range(part));
    of_full += error(part, channel, full[i], kAny);
    of_chosen += error(part, channel, chosen[i], kAny);
  }
  if (of_chosen > kWorthwhile * of_full) std::ranges::copy(full, chosen.begin());
}

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
    : WeightObserver(std::move(args), "percentile") {
  checked_share(args_.choice);
}

ValueRange PerChannelPercentileObserver::choose_range(std::span<float> values, size_t) const {
  const double share = checked_share(args_.choice);
  if (is_symmetric(args_.qscheme)) {
    for (float& value : values) value = std::abs(value);
    std::ranges::sort(values);
    const float size = at_share(values, share);
    return {-size, size};
  }
  std::ranges::sort(values);
  const double tail = (1.0 - share) / 2;
  return {at_share(values, tail), at_share(values, 1.0 - tail)};
}

}  // namespace octet

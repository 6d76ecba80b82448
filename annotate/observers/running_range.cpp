// Compiled without contraction of multiplications and additions: the averages are torchao's to the
// bit.
#include "annotate/observers/running_range.h"

#include <algorithm>
#include <cmath>

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

}  // namespace octet

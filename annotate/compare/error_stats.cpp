#include "annotate/compare/error_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace octet {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// Sums in lanes, which the compiler turns into vectors.
constexpr int64_t kLanes = 8;

}  // namespace

ErrorStats error_stats(const float* reference, const float* subject, int64_t count) {
  double signal[kLanes] = {}, energy[kLanes] = {}, product[kLanes] = {}, noise[kLanes] = {};
  float largest[kLanes] = {};
  const auto add = [&](int64_t i, int64_t lane) {
    const double r = reference[i], s = subject[i], difference = r - s;
    signal[lane] += r * r;
    energy[lane] += s * s;
    product[lane] += r * s;
    noise[lane] += difference * difference;
    const float distance = std::abs(reference[i] - subject[i]);
    largest[lane] = distance > largest[lane] ? distance : largest[lane];
  };
  int64_t done = 0;
  for (; done + kLanes <= count; done += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) add(done + lane, lane);
  for (; done < count; ++done) add(done, 0);
  ErrorStats stats{.elements = count};
  for (int64_t lane = 0; lane < kLanes; ++lane)
    stats.merge({.signal = signal[lane],
                 .energy = energy[lane],
                 .product = product[lane],
                 .noise = noise[lane],
                 .largest = largest[lane]});
  // NaN and infinities leave NaN in a sum. Only then look at each element.
  if (std::isfinite(stats.signal + stats.energy)) return stats;
  stats = {.elements = count};
  for (int64_t i = 0; i < count; ++i) {
    const double r = reference[i], s = subject[i];
    if (std::isfinite(r) && std::isfinite(s)) {
      stats.signal += r * r;
      stats.energy += s * s;
      stats.product += r * s;
      stats.noise += (r - s) * (r - s);
      stats.largest = std::max(stats.largest, std::abs(r - s));
    } else if (r != s && !(std::isnan(r) && std::isnan(s))) {
      ++stats.strange;
    }
  }
  return stats;
}

double ErrorStats::sqnr_db() const {
  if (!has_data()) return kNothing;
  if (strange > 0) return -kInfinite;
  if (noise == 0) return kInfinite;
  return 10 * std::log10(signal / noise);
}

double ErrorStats::mse() const {
  return has_data() ? noise / static_cast<double>(elements) : kNothing;
}

double ErrorStats::cosine() const {
  if (!has_data()) return kNothing;
  if (signal == 0 && energy == 0) return 1;
  return signal == 0 || energy == 0 ? 0 : product / std::sqrt(signal * energy);
}

double ErrorStats::relative() const {
  if (strange > 0) return kInfinite;
  return noise == 0 ? 0 : noise / signal;
}

void ErrorStats::merge(const ErrorStats& other) {
  signal += other.signal;
  energy += other.energy;
  product += other.product;
  noise += other.noise;
  largest = std::max(largest, other.largest);
  elements += other.elements;
  strange += other.strange;
}

}  // namespace octet

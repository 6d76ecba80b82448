#include "annotate/observers/mse.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace octet {
namespace {

constexpr int kHistogramOctaves = 11;  // down to one of 2048 bins
// weights have no far outliers; a range clipped too much is left after few values
constexpr int kWeightOctaves = 4;

// Of a weight's error. Random weights in even spread are above it, trained ones far below.
constexpr double kWorthwhile = 0.96;

ValueRange full_range(std::span<const float> values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

// A histogram whose outermost bins hold no more than their neighbours: what they hold beyond is
// taken for values at the very ends, where clamps leave them.
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

// What `range` is quantized to.
Lattice lattice_of(const ValueRange& range, const QParamsTarget& target,
                   const std::string& subject) {
  const QParams qparams = choose_qparams({&range.min, 1}, {&range.max, 1}, target, subject);
  const int64_t zero_point = qparams.zero_point[0];
  return {qparams.scale[0], static_cast<double>(target.quant_min - zero_point),
          static_cast<double>(target.quant_max - zero_point)};
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

double PerChannelMseObserver::error(std::span<const float> values, const ValueRange& range,
                                    double limit) const {
  return product_error(values, lattice_of(range, target(), args_.choice.name), limit);
}

ValueRange PerChannelMseObserver::choose_range(std::span<float> values) const {
  return least_error_range(
      full_range(values), {.is_symmetric = is_symmetric(args_.qscheme), .octaves = kWeightOctaves},
      [&](const ValueRange& range, double limit) { return error(values, range, limit); });
}

void PerChannelMseObserver::settle(std::span<const float> values,
                                   std::span<ValueRange> chosen) const {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  const size_t length = values.size() / chosen.size();
  std::vector<ValueRange> full;
  double of_full = 0, of_chosen = 0;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::span<const float> channel = values.subspan(i * length, length);
    full.push_back(full_range(channel));
    of_full += error(channel, full[i], kAny);
    of_chosen += error(channel, chosen[i], kAny);
  }
  if (of_chosen > kWorthwhile * of_full) std::copy(full.begin(), full.end(), chosen.begin());
}

}  // namespace octet

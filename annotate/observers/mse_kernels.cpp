// Compiled with -O3 and without contraction: fusing would undo the rounding by addition.
#include "annotate/observers/mse_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "annotate/observers/vector_clones.h"

namespace octet {
namespace {

constexpr int kCoarse = 8;  // steps to the octave
constexpr int kFine = 64;
constexpr int kRounds = 3;

// The nearest whole number of the lattice. Adding and taking away 3 * 2^51 rounds numbers below
// 2^51, and unlike std::nearbyint in vectors.
inline double nearest(double x, double low, double high) {
  constexpr double kRounder = 6755399441055744.0;
  const double inside = std::min(std::max(x, low), high);
  return (inside + kRounder) - kRounder;
}

// The integral of the squared distance to the lattice from 0 to x, in units of the scale.
inline double distance_integral(double x, double low, double high) {
  const double whole = nearest(x, low, high);
  const double rest = x - whole;
  return whole * (1.0 / 12.0) + rest * rest * rest * (1.0 / 3.0);
}

constexpr size_t kLanes = 8;
constexpr size_t kChunk = 512;  // values between two looks at the limit

// The sum of term(i) for i < count, in lanes that the processor can add side by side.
template <typename Term>
inline double sum_of(size_t count, const Term& term) {
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  double sum = 0;
  for (; i < count; ++i) sum += term(i);
  for (const double lane : lanes) sum += lane;
  return sum;
}

// Distances to the lattice of 1 / inverse, in units of its scale.
struct Distances {
  double squares = 0;
  double sum = 0;
};

OCTET_VECTOR_CLONES Distances distances(const float* values, size_t count, double inverse,
                                        double low, double high) {
  double squares[kLanes] = {}, sums[kLanes] = {};
  const auto add = [=](double& square, double& sum, float value) __attribute__((always_inline)) {
    const double x = static_cast<double>(value) * inverse;
    const double rest = x - nearest(x, low, high);
    square += rest * rest;
    sum += rest;
  };
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) add(squares[lane], sums[lane], values[i + lane]);
  Distances result;
  for (; i < count; ++i) add(result.squares, result.sum, values[i]);
  for (const double lane : squares) result.squares += lane;
  for (const double lane : sums) result.sum += lane;
  return result;
}

// mean_share: of the squared sum.
double error_of(std::span<const float> values, const Lattice& lattice, double mean_share,
                double limit) {
  const double inverse = 1.0 / lattice.scale;
  const double unit = lattice.scale * lattice.scale;
  Distances all;
  for (size_t i = 0; i < values.size() && all.squares * unit <= limit; i += kChunk) {
    const Distances part = distances(values.data() + i, std::min(kChunk, values.size() - i),
                                     inverse, lattice.low, lattice.high);
    all.squares += part.squares;
    all.sum += part.sum;
  }
  return (all.squares + mean_share * all.sum * all.sum) * unit;
}

// Scales one end, or both alike.
enum class End { kLow, kHigh, kBoth };

ValueRange scaled(const ValueRange& range, End end, float factor) {
  return {end == End::kHigh ? range.min : range.min * factor,
          end == End::kLow ? range.max : range.max * factor};
}

class Search {
 public:
  Search(ValueRange full, const RangeError& error)
      : error_(error), best_(full), least_(error(full, std::numeric_limits<double>::infinity())) {
    if (std::isnan(least_)) least_ = std::numeric_limits<double>::infinity();
  }

  // Tries `steps_down` smaller and `steps_up` larger ends, 2^(1/density) apart. Whether the best
  // has changed.
  bool sweep(End end, int density, int steps_down, int steps_up) {
    const ValueRange start = best_;
    bool is_better = false;
    for (int step = -steps_down; step <= steps_up; ++step) {
      const ValueRange range =
          scaled(start, end, std::exp2(static_cast<float>(step) / static_cast<float>(density)));
      if (step == 0 || !std::isfinite(range.min) || !std::isfinite(range.max)) continue;
      const double error = error_(range, least_);
      if (!(error < least_)) continue;
      least_ = error;
      best_ = range;
      is_better = true;
    }
    return is_better;
  }

  ValueRange best() const { return best_; }

 private:
  const RangeError& error_;
  ValueRange best_;
  double least_;
};

}  // namespace

double squared_error(std::span<const float> values, const Lattice& lattice, double limit) {
  return error_of(values, lattice, 0, limit);
}

double product_error(std::span<const float> values, const Lattice& lattice, double limit) {
  return error_of(values, lattice, kMeanShare, limit);
}

double squared_error(std::span<const float> counts, double min, double width,
                     const Lattice& lattice) {
  const double step = width / lattice.scale;
  const double start = min / lattice.scale;
  const double low = lattice.low;
  const double high = lattice.high;
  const double sum = sum_of(counts.size(), [&](size_t i) {
    const double begin = start + static_cast<double>(static_cast<int>(i)) * step;
    const double end = start + static_cast<double>(static_cast<int>(i) + 1) * step;
    return static_cast<double>(counts[i]) *
           (distance_integral(end, low, high) - distance_integral(begin, low, high));
  });
  return sum / step * lattice.scale * lattice.scale;
}

ValueRange least_error_range(ValueRange full, const RangeSearch& search, const RangeError& error) {
  full = {std::min(full.min, 0.0f), std::max(full.max, 0.0f)};
  if (full.min == full.max) return full;
  Search state(full, error);
  const int down = search.octaves * kCoarse;
  if (search.is_symmetric || full.min == 0.0f || full.max == 0.0f) {
    state.sweep(End::kBoth, kCoarse, down, 0);
    state.sweep(End::kBoth, kFine, kFine / kCoarse, kFine / kCoarse);
    return state.best();
  }
  // both ends are outliers: neither alone makes the scale much smaller
  state.sweep(End::kBoth, kCoarse, down, 0);
  bool is_better = true;
  for (int round = 0; round < kRounds && is_better; ++round) {
    is_better = state.sweep(End::kHigh, kCoarse, down, kCoarse);
    is_better |= state.sweep(End::kLow, kCoarse, down, kCoarse);
  }
  is_better = true;
  for (int round = 0; round < kRounds && is_better; ++round) {
    is_better = state.sweep(End::kHigh, kFine, kFine / kCoarse, kFine / kCoarse);
    is_better |= state.sweep(End::kLow, kFine, kFine / kCoarse, kFine / kCoarse);
  }
  return state.best();
}

}  // namespace octet

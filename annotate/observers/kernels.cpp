// Compiled with -O3 and -ffp-contract=off (annotate/CMakeLists.txt): a fused multiply-add would
// undo the rounding by addition below, and would change the bits that torchao gives.
#include "annotate/observers/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/vector_clones.h"

namespace octet {
namespace {

// Adding and taking away 3 * 2^22 rounds numbers below 2^22 half to even, and unlike std::nearbyint
// in vectors.
constexpr float kRounder = 12582912.0f;

constexpr size_t kBlock = 1024;
// neighbors often fall into one bin (zeros after a ReLU): with four tables their additions can
// overlap
constexpr size_t kTables = 4;

// density * integral of x^2 from begin to end.
inline float norm(float begin, float end, float density) {
  return density * ((end * end * end - begin * begin * begin) / 3.0f);
}

// floor(a / b) clamped to [0, last]. The quotient of two floats, rounded to double, has the floor
// of the exact one below 2^28; beyond, the clamp decides. Index: wide enough for `last`.
template <typename Index>
inline float bin_of(float a, double b, double last) {
  const double quotient = static_cast<double>(a) / b;
  const double clamped = quotient > 0.0 ? std::min(quotient, last) : 0.0;
  return static_cast<float>(static_cast<Index>(clamped));
}

template <typename Index>
void errors_of(std::span<const float> density, const ErrorRange& range, std::span<float> errors) {
  const double dst_width = range.dst_width;
  const double last = range.last;
  for (size_t i = 0; i < density.size(); ++i) {
    const float begin = static_cast<float>(static_cast<int>(i) - range.start_bin) * range.width;
    const float end = begin + range.width;
    const float bin_of_begin = bin_of<Index>(begin, dst_width, last);
    const float bin_of_end = bin_of<Index>(end, dst_width, last);
    const float center_of_begin = (bin_of_begin + 0.5f) * range.dst_width;
    const float center_of_end = bin_of_end * range.dst_width + range.half_dst_width;
    float error = norm(begin - center_of_begin, range.half_dst_width, density[i]);
    error += (bin_of_end - bin_of_begin - 1.0f) *
             norm(-range.half_dst_width, range.half_dst_width, density[i]);
    error += norm(-range.half_dst_width, end - center_of_end, density[i]);
    errors[i] = error;
  }
}

// How many boundaries are at most `value`, by bisection like aten::bucketize, which also defines
// the result for boundaries out of order, as rounding may give for a range of a few ulps.
size_t count_at_most(std::span<const float> boundaries, float value) {
  size_t start = 0;
  size_t end = boundaries.size();
  while (start < end) {
    const size_t middle = start + ((end - start) >> 1);
    if (!(boundaries[middle] > value))
      start = middle + 1;
    else
      end = middle;
  }
  return start;
}

constexpr int kCoarse = 8;  // steps per octave
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
constexpr size_t kChunk = 512;  // values between two checks of the limit

// The sum of term(i) for i < count, in lanes that the processor can add side by side.
template <typename Term>
[[gnu::always_inline]] inline double sum_of(size_t count, const Term& term) {
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

// The sum of the weighted squares of those distances.
OCTET_VECTOR_CLONES double weighted_distance(const float* values, const float* weights,
                                             size_t count, double inverse, double low,
                                             double high) {
  return sum_of(count, [=](size_t i) __attribute__((always_inline)) {
    const double x = static_cast<double>(values[i]) * inverse;
    const double rest = x - nearest(x, low, high);
    return static_cast<double>(weights[i]) * rest * rest;
  });
}

// mean_share: weight of the squared sum.
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

// Which end to scale.
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

  // Tries `steps_down` smaller and `steps_up` larger ends, 2^(1/density) apart. Returns whether the
  // best has changed.
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

OCTET_VECTOR_CLONES void round_to_grid(const float* __restrict from, int64_t count,
                                       const FloatGrid& grid, float* __restrict to,
                                       uint8_t* __restrict inside) {
  const float inverse = 1.0f / grid.scale;
  const float scale = grid.scale;
  const float low = grid.low;
  const float high = grid.high;
  // Clamping one step beyond the grid suffices to detect values outside of it. The comparisons send
  // NaN to the low end.
  const float below = low - 1;
  const float above = high + 1;
  if (inside == nullptr) {
    for (int64_t i = 0; i < count; ++i) {
      float x = from[i] * inverse;
      x = x > low ? x : low;
      x = x < high ? x : high;
      to[i] = ((x + kRounder) - kRounder) * scale;
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    float x = from[i] * inverse;
    x = x > below ? x : below;
    x = x < above ? x : above;
    const float rounded = (x + kRounder) - kRounder;
    const float low_cut = rounded > low ? rounded : low;
    const float on_grid = low_cut < high ? low_cut : high;
    to[i] = on_grid * scale;
    inside[i] = on_grid == rounded ? 1 : 0;
  }
}

OCTET_VECTOR_CLONES void keep_inside(const float* __restrict from, const uint8_t* __restrict inside,
                                     int64_t count, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] * static_cast<float>(inside[i]);
}

void count_into_bins(std::span<const float> values, float low, float high,
                     std::span<uint32_t> counts) {
  const size_t bins = counts.size();
  const float scale = static_cast<float>(bins);
  const float range = high - low;
  const int32_t last = static_cast<int32_t>(bins) - 1;
  // for fewer values, clearing and adding tables costs more than it saves
  const bool has_tables = values.size() > 2 * kTables * bins;
  thread_local std::vector<uint32_t> tables;
  if (has_tables) tables.assign(kTables * bins, 0);
  std::array<int32_t, kBlock> index;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, values.size() - begin);
    const float* block = values.data() + begin;
    for (size_t i = 0; i < count; ++i)
      index[i] = std::min(static_cast<int32_t>((block[i] - low) * scale / range), last);
    size_t i = 0;
    if (has_tables)
      for (; i + kTables <= count; i += kTables)
        for (size_t t = 0; t < kTables; ++t) ++tables[t * bins + static_cast<size_t>(index[i + t])];
    for (; i < count; ++i) ++counts[static_cast<size_t>(index[i])];
  }
  if (!has_tables) return;
  for (size_t t = 0; t < kTables; ++t)
    for (size_t bin = 0; bin < bins; ++bin) counts[bin] += tables[t * bins + bin];
}

bool can_count_into_bins(float low, float high, size_t bins) {
  const float range = high - low;
  return range > 0.0f && std::isfinite(range * static_cast<float>(bins)) &&
         bins < (size_t{1} << 24);
}

void spread_counts(std::span<const float> counts, int rate, std::span<const float> points,
                   float half, std::span<const float> boundaries, std::span<float> out) {
  const bool sorted = std::ranges::is_sorted(boundaries);
  const size_t last = out.size() - 1;
  size_t below = 0;  // number of boundaries at most the point
  for (size_t bin = 0; bin < counts.size(); ++bin) {
    const float part = counts[bin] / static_cast<float>(rate);
    if (part == 0.0f) continue;
    for (size_t i = bin * static_cast<size_t>(rate); i < (bin + 1) * static_cast<size_t>(rate);
         ++i) {
      const float point = points[i] + half;
      if (sorted) {
        while (below < boundaries.size() && boundaries[below] <= point) ++below;
        while (below > 0 && boundaries[below - 1] > point) --below;
      } else {
        below = count_at_most(boundaries, point);
      }
      out[below == 0 ? 0 : std::min(below - 1, last)] += part;
    }
  }
}

void quantization_errors(std::span<const float> density, const ErrorRange& range,
                         std::span<float> errors) {
  if (range.last < 2147483648.0f)
    errors_of<int32_t>(density, range, errors);
  else
    errors_of<int64_t>(density, range, errors);
}

double squared_error(std::span<const float> values, const Lattice& lattice, double limit) {
  return error_of(values, lattice, 0, limit);
}

double squared_error(std::span<const float> values, std::span<const float> weights,
                     const Lattice& lattice) {
  return weighted_distance(values.data(), weights.data(), values.size(), 1.0 / lattice.scale,
                           lattice.low, lattice.high) *
         lattice.scale * lattice.scale;
}

double product_error(std::span<const float> rows, size_t length, const Lattice& lattice,
                     double limit) {
  double sum = 0;
  for (size_t i = 0; i < rows.size() && sum <= limit; i += length)
    sum += error_of(rows.subspan(i, length), lattice, kMeanShare, limit - sum);
  return sum;
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
  // both ends are outliers: moving one alone hardly reduces the scale
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

// The inner loops of fake quantization with one scale, over plain arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

namespace octet {

// Whole numbers from `low` to `high`, the zero point taken off them, times `scale`. |low| and
// |high| are at most kGridLimit.
struct FloatGrid {
  float scale;
  float low;
  float high;
};
inline constexpr int64_t kGridLimit = int64_t{1} << 21;

// to[i] = from[i] rounded half to even on the grid, NaN to its low end; inside[i] (when not null) =
// 1 where the rounded value lies on the grid, else 0.
void round_to_grid(const float* from, int64_t count, const FloatGrid& grid, float* to,
                   uint8_t* inside);

// to[i] = from[i] * inside[i]
void keep_inside(const float* from, const uint8_t* inside, int64_t count, float* to);

// The loops of the histogram observer over plain arrays. Float order and rounding are those of the
// ATen ops that torchao calls, to the bit.

// counts[floor((x - low) * bins / (high - low))] += 1 for each x, the last bin taking x = high too,
// as aten::histc does. Requires low <= x <= high for each x, and a positive, finite (high - low) *
// bins.
void count_into_bins(std::span<const float> values, float low, float high,
                     std::span<uint32_t> counts);

// Whether count_into_bins can serve this range.
bool can_count_into_bins(float low, float high, size_t bins);

// Adds each source bin to `out` in `rate` equal parts; part i falls where points[i] + half lies
// among the boundaries (one more than `out` has bins; values outside go to the outermost bins).
// points: counts.size() * rate of them. Adds in the order of the parts.
void spread_counts(std::span<const float> counts, int rate, std::span<const float> points,
                   float half, std::span<const float> boundaries, std::span<float> out);

// The squared error of each source bin when the bins from start_bin on are quantized to integers
// 0..last, dst_width apart. density: count / width of each bin. width: of a source bin.
struct ErrorRange {
  int start_bin;
  float width;
  float dst_width;
  float half_dst_width;
  float last;  // at most 2^32
};
void quantization_errors(std::span<const float> density, const ErrorRange& range,
                         std::span<float> errors);

// Squared errors of quantization over plain arrays, and the search for the range with the least.

// The values that quantization leaves: scale * n for the whole numbers n from low to high (the zero
// point is taken off already).
struct Lattice {
  double scale;  // > 0
  double low;    // <= 0
  double high;   // >= 0
};

// The sum of squared errors of these values. Their quotient by the scale must be below 2^51
// wherever it lies within the lattice. Above `limit`, which ends the search early, the result is
// only known to be above it.
double squared_error(std::span<const float> values, const Lattice& lattice,
                     double limit = std::numeric_limits<double>::infinity());
// The values are weights of one output. Its squared error for independent inputs of variance 1 and
// mean m is the sum of the weights' squared errors plus m^2 times the square of their sum.
// kMeanShare is m^2, about that behind a ReLU of normal values. `limit` as above.
inline constexpr double kMeanShare = 0.5;
double product_error(std::span<const float> values, const Lattice& lattice,
                     double limit = std::numeric_limits<double>::infinity());
// Of a histogram: bin i holds counts[i] values spread evenly over `width` from min + i * width on.
// Exact under that assumption, however the bins lie to the lattice. width > 0.
double squared_error(std::span<const float> counts, double min, double width,
                     const Lattice& lattice);

struct ValueRange {
  float min;
  float max;
};
// The error when a range is quantized; any number above `limit` stands for one above it.
using RangeError = std::function<double(const ValueRange& range, double limit)>;
struct RangeSearch {
  bool is_symmetric = false;  // one magnitude for both ends
  int octaves = 4;            // how often the range may be halved
};
// The range with the least error: `full`, widened to hold 0, with each end scaled by powers of
// 2^(1/8), then by powers of 2^(1/64) around the best. Never worse than `full`.
ValueRange least_error_range(ValueRange full, const RangeSearch& search, const RangeError& error);

}  // namespace octet

// The inner loops of fake quantization, of the histogram observer and of searches for ranges, over
// plain arrays. Where torchao has the same computation, float order and rounding give its bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

namespace octet {

// The values (n - zero point) * scale that fake quantization produces, with low <= n - zero point
// <= high. |low| and |high| are at most kGridLimit.
struct FloatGrid {
  float scale;
  float low;
  float high;
};
inline constexpr int64_t kGridLimit = int64_t{1} << 21;

// to[i] = from[i] rounded half to even to the grid; NaN becomes its lower end. inside[i], when not
// null, is 1 where the rounded value lies on the grid, else 0.
void round_to_grid(const float* from, int64_t count, const FloatGrid& grid, float* to,
                   uint8_t* inside);

// to[i] = from[i] * inside[i]
void keep_inside(const float* from, const uint8_t* inside, int64_t count, float* to);

// counts[floor((x - low) * bins / (high - low))] += 1 for each x, where x = high counts into the
// last bin, as in aten::histc. Requires low <= x <= high for each x, and a positive, finite (high -
// low) * bins.
void count_into_bins(std::span<const float> values, float low, float high,
                     std::span<uint32_t> counts);

// Whether count_into_bins supports this range.
bool can_count_into_bins(float low, float high, size_t bins);

// Spreads a histogram over other bins: adds each source bin to `out` in `rate` equal parts. Part i
// falls where points[i] + half lies among the boundaries (one more than `out` has bins; values
// outside go to the outermost bins). points: counts.size() * rate of them. Adds in the order of the
// parts.
void spread_counts(std::span<const float> counts, int rate, std::span<const float> points,
                   float half, std::span<const float> boundaries, std::span<float> out);

// Computes the squared error of each source bin when the bins from start_bin on are quantized to
// integers 0..last, dst_width apart. density: count / width of each bin. width: width of a source
// bin.
struct ErrorRange {
  int start_bin;
  float width;
  float dst_width;
  float half_dst_width;
  float last;  // at most 2^32
};
void quantization_errors(std::span<const float> density, const ErrorRange& range,
                         std::span<float> errors);

// The values that quantization can represent: scale * n for whole numbers n from low to high (the
// zero point is already subtracted).
struct Lattice {
  double scale;  // > 0
  double low;    // <= 0
  double high;   // >= 0
};

// The sum of squared errors of these values. Requires |value / scale| < 2^51 for values within the
// lattice. A result above `limit`, at which the sum stops early, is only a lower bound.
double squared_error(std::span<const float> values, const Lattice& lattice,
                     double limit = std::numeric_limits<double>::infinity());
// The sum of squared errors with a weight for each. Requires weights.size() == values.size().
double squared_error(std::span<const float> values, std::span<const float> weights,
                     const Lattice& lattice);
// The squared error of the outputs of a product with rows of `length` weights, one for each output,
// for independent inputs of variance 1 and mean m: for each row the sum of the weights' squared
// errors plus m^2 times the square of their sum. kMeanShare is m^2; 0.5 is about that of normal
// values after a ReLU. `limit` as above. Requires rows.size() to be a multiple of `length`.
inline constexpr double kMeanShare = 0.5;
double product_error(std::span<const float> rows, size_t length, const Lattice& lattice,
                     double limit = std::numeric_limits<double>::infinity());
// The squared error of a histogram: bin i holds counts[i] values spread evenly over `width` from
// min + i * width on. Under that assumption it is exact for any alignment of bins and lattice.
// width > 0.
double squared_error(std::span<const float> counts, double min, double width,
                     const Lattice& lattice);

struct ValueRange {
  float min;
  float max;
};
// The error of quantizing a range; may return any number above `limit` when it is above.
using RangeError = std::function<double(const ValueRange& range, double limit)>;
struct RangeSearch {
  bool is_symmetric = false;  // one magnitude for both ends
  int octaves = 4;            // how often the range may be halved
};
// The range with the least error: starts from `full`, widened to include 0, and scales each end by
// powers of 2^(1/8), then by powers of 2^(1/64) around the best. Never worse than `full`.
ValueRange least_error_range(ValueRange full, const RangeSearch& search, const RangeError& error);

}  // namespace octet

// Squared errors of quantization over plain arrays, and the search for the range with the least.
#pragma once

#include <functional>
#include <limits>
#include <span>

namespace octet {

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

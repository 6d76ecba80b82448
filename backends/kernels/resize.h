// Resizes images and volumes: computes which pixels each output position reads along each dimension
// (its taps), and sums them by weight, on floats or bytes.
//
// Linear, from 2 to 4 pixels: output pixel 1 is at (1 + 0.5) * 2 / 4 - 0.5 = 0.25, so its taps are
// pixel 0 with weight 0.75 and pixel 1 with weight 0.25. Cubic weights are those of Keys, "Cubic
// Convolution Interpolation for Digital Image Processing", 1981; antialiased modes widen the filter
// as Pillow does. Positions and weights are those of PyTorch's interpolate.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/kernels/parallel.h"
#include "backends/kernels/vector_math.h"

namespace octet {

struct SampleTap {
  int64_t at = 0;  // negative: outside the input, reads 0
  double weight = 1;
};

// Weights of the four neighbors in Keys' cubic convolution; t in [0, 1] is the distance from the
// second one.
inline std::array<double, 4> cubic_weights(double t, double a) {
  const auto near = [a](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [a](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}
inline constexpr double kCubic = -0.75, kAntialiasedCubic = -0.5;

enum class Resize {
  kNearest,
  kNearestExact,
  kLinear,
  kCubic,
  kLinearAntialiased,
  kCubicAntialiased
};

// Finds the kind by the mode's name and the number of spatial dimensions (0 in the table: any).
inline std::optional<Resize> find_resize(std::string_view mode, size_t spatial) {
  struct Mode {
    std::string_view name;
    size_t spatial;
    Resize resize;
  };
  constexpr Mode kModes[] = {
      {"nearest", 0, Resize::kNearest},
      {"nearest_exact", 0, Resize::kNearestExact},
      {"linear", 1, Resize::kLinear},
      {"bilinear", 2, Resize::kLinear},
      {"trilinear", 3, Resize::kLinear},
      {"bicubic", 2, Resize::kCubic},
      {"bilinear_aa", 2, Resize::kLinearAntialiased},
      {"bicubic_aa", 2, Resize::kCubicAntialiased},
  };
  for (const Mode& row : kModes)
    if (mode == row.name && (row.spatial == 0 || row.spatial == spatial)) return row.resize;
  return std::nullopt;
}

// Antialiasing stretches the filter over as many input pixels as an output pixel covers.
template <typename Taps>
void add_antialiased(Taps& taps, Resize resize, double scale, int64_t o, int64_t in) {
  const bool is_cubic = resize == Resize::kCubicAntialiased;
  const double stretch = std::max(scale, 1.0), support = (is_cubic ? 2 : 1) * stretch,
               center = std::min(scale * (static_cast<double>(o) + 0.5),
                                 static_cast<double>(in) + 2 * support);
  const int64_t begin = std::clamp<int64_t>(static_cast<int64_t>(center - support + 0.5), 0, in),
                end = std::min(static_cast<int64_t>(center + support + 0.5), in);
  const size_t start = taps.size();
  double sum = 0;
  for (int64_t at = begin; at < end; ++at) {
    const double x = std::fabs((static_cast<double>(at) - center + 0.5) / stretch);
    double weight = x < 1 ? 1 - x : 0;
    if (is_cubic)
      weight = x < 1   ? cubic_weights(x, kAntialiasedCubic)[1]
               : x < 2 ? cubic_weights(x - 1, kAntialiasedCubic)[0]
                       : 0;
    taps.push_back({at, weight});
    sum += weight;
  }
  for (size_t i = start; i < taps.size() && sum != 0; ++i) taps[i].weight /= sum;
}

// Appends the taps of output position o for an input of `in` positions. scale: input step per
// output position, at least 0. Taps: a vector of SampleTap.
template <typename Taps>
void add_taps(Taps& taps, Resize resize, bool aligns, double scale, int64_t o, int64_t in) {
  if (resize == Resize::kNearest || resize == Resize::kNearestExact) {
    const float position = static_cast<float>(o) + (resize == Resize::kNearestExact ? 0.5f : 0.0f);
    const double at = std::floor(position * static_cast<float>(scale));
    taps.push_back({static_cast<int64_t>(std::min(at, static_cast<double>(in - 1))), 1});
    return;
  }
  if (resize == Resize::kLinearAntialiased || resize == Resize::kCubicAntialiased)
    return add_antialiased(taps, resize, scale, o, in);
  double position =
      aligns ? static_cast<double>(o) * scale : (static_cast<double>(o) + 0.5) * scale - 0.5;
  position = std::min(position, static_cast<double>(in));
  if (resize == Resize::kLinear) {
    position = std::max(position, 0.0);
    const int64_t low = std::min(static_cast<int64_t>(position), in - 1);
    const double weight = position - static_cast<double>(low);
    taps.push_back({low, 1 - weight});
    taps.push_back({std::min(low + 1, in - 1), weight});
    return;
  }
  const int64_t low = std::min(static_cast<int64_t>(std::floor(position)), in - 1);
  const std::array<double, 4> weights =
      cubic_weights(std::clamp(position - static_cast<double>(low), 0.0, 1.0), kCubic);
  for (int64_t k = 0; k < 4; ++k)
    taps.push_back({std::clamp<int64_t>(low - 1 + k, 0, in - 1), weights[static_cast<size_t>(k)]});
}

// ---- the kernel

// The taps along one dimension. Output position i uses taps [first[i], first[i + 1]).
struct ResizeAxis {
  struct Tap {
    int64_t at;
    float weight;
  };
  int64_t in = 1;
  std::vector<Tap> taps = {{0, 1}};
  std::vector<int64_t> first = {0, 1};
  int64_t out() const { return std::ssize(first) - 1; }
};
// Collects the results of add_taps() for `out` positions.
ResizeAxis resize_axis(Resize resize, bool aligns, double scale, int64_t in, int64_t out);

// x [outer, in of the three axes, inner] -> y [outer, out of the three axes, inner].
struct ImageResize {
  int64_t outer = 1;
  std::array<ResizeAxis, 3> axes;
  int64_t inner = 1;
  std::optional<ByteScale> from;  // of bytes; nullopt: floats
  std::optional<ByteScale> to;

  size_t scratch_bytes() const;
  // from: x. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
};

}  // namespace octet

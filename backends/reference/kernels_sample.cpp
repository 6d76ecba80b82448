// Interpolates images: upsample and grid_sample. Along each dimension, an output pixel reads
// weighted input positions, its taps; weights of different dimensions multiply.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backends/kernels/resize.h"
#include "backends/reference/elements.h"
#include "lowering/program/resize_scale.h"

namespace octet::reference {
namespace {

// ---- upsample

// The taps of all output positions of one dimension; position i starts at first[i].
struct DimTaps {
  Buffer<SampleTap> taps;
  Sizes first;
};

template <typename T>
void upsample(const KernelCall& call) {
  const std::vector<int64_t>& in = call.input_shape(0);
  const std::vector<int64_t>& out = call.output_shape();
  const size_t spatial = in.size() - 2;
  const Resize resize = *find_resize(call.op.get(attr::kMode), spatial);
  std::array<DimTaps, kMaxSpatial> dims;
  std::array<int64_t, kMaxSpatial> in_size{1, 1, 1}, out_size{1, 1, 1};
  for (size_t d = 0; d < kMaxSpatial; ++d) {
    const size_t lead = kMaxSpatial - spatial;
    dims[d].first.push_back(0);
    if (d >= lead) {
      in_size[d] = in[d - lead + 2];
      out_size[d] = out[d - lead + 2];
    }
    for (int64_t o = 0; o < out_size[d]; ++o) {
      if (d < lead)
        dims[d].taps.push_back({0, 1});
      else
        add_taps(dims[d].taps, resize, call.op.get(attr::kAlignCorners),
                 resize_scale(call.op, d - lead, in, out), o, in_size[d]);
      dims[d].first.push_back(static_cast<int64_t>(dims[d].taps.size()));
    }
  }
  const Reals<T> x = reals_of<T>(call, 0);
  const auto taps = [&](size_t d, int64_t o) {
    const size_t begin = static_cast<size_t>(dims[d].first[static_cast<size_t>(o)]),
                 end = static_cast<size_t>(dims[d].first[static_cast<size_t>(o) + 1]);
    return std::span<const SampleTap>(dims[d].taps).subspan(begin, end - begin);
  };
  Buffer<double> y;
  y.reserve(static_cast<size_t>(call.outputs[0].numel()));
  for (int64_t plane = 0; plane < in[0] * in[1]; ++plane)
    for (int64_t oz = 0; oz < out_size[0]; ++oz)
      for (int64_t oy = 0; oy < out_size[1]; ++oy)
        for (int64_t ox = 0; ox < out_size[2]; ++ox) {
          double sum = 0;
          for (const SampleTap& z : taps(0, oz))
            for (const SampleTap& row : taps(1, oy)) {
              const int64_t line = ((plane * in_size[0] + z.at) * in_size[1] + row.at) * in_size[2];
              double part = 0;
              for (const SampleTap& column : taps(2, ox))
                part += static_cast<double>(x[line + column.at]) * column.weight;
              sum += part * (z.weight * row.weight);
            }
          y.push_back(sum);
        }
  store<double>(call, y);
}

// ---- grid_sample

enum class Outside { kZeros, kBorder, kReflection };
enum class Sampling { kLinear, kNearest, kCubic };

Outside outside_of(std::string_view name) {
  return name == "zeros"    ? Outside::kZeros
         : name == "border" ? Outside::kBorder
                            : Outside::kReflection;
}
Sampling sampling_of(std::string_view name) {
  return name == "bilinear"  ? Sampling::kLinear
         : name == "nearest" ? Sampling::kNearest
                             : Sampling::kCubic;
}

struct GridRule {
  Outside outside;
  Sampling sampling;
  bool aligns;
};

// Reflects at half-pixels low / 2 and high / 2.
template <typename T>
T reflected(T x, int64_t low, int64_t high) {
  if (low == high) return 0;
  const T least = static_cast<T>(low) / 2, span = static_cast<T>(high - low) / 2;
  x = std::fabs(x - least);
  const T rest = std::fmod(x, span);
  return std::fmod(std::floor(x / span), T{2}) == 0 ? rest + least : span - rest + least;
}

// Moves a pixel coordinate into the image, if the rule says so; NaN becomes 0.
template <typename T>
T moved_inside(T x, int64_t size, const GridRule& rule) {
  if (rule.outside == Outside::kZeros) return x;
  if (rule.outside == Outside::kReflection)
    x = rule.aligns ? reflected(x, 0, 2 * (size - 1)) : reflected(x, -1, 2 * size - 1);
  return x > 0 ? std::min(x, static_cast<T>(size - 1)) : T{0};
}

// The pixel at a whole coordinate; -1 outside.
template <typename T>
int64_t pixel_at(T x, int64_t size) {
  return x >= 0 && x < static_cast<T>(size) ? static_cast<int64_t>(x) : -1;
}

using GridTaps = std::array<SampleTap, 4>;

// Finds the taps of a coordinate in [-1, 1] along one dimension; returns their number.
template <typename T>
size_t grid_taps(T given, int64_t size, const GridRule& rule, GridTaps& taps) {
  const T extent = static_cast<T>(size);
  T x = rule.aligns ? (given + 1) / 2 * (extent - 1) : ((given + 1) * extent - 1) / 2;
  if (rule.sampling == Sampling::kCubic) {
    const T low = std::floor(x);
    const std::array<double, 4> weights = cubic_weights(static_cast<double>(x - low), kCubic);
    for (size_t k = 0; k < 4; ++k)
      taps[k] = {pixel_at(moved_inside(low + static_cast<T>(k) - 1, size, rule), size), weights[k]};
    return 4;
  }
  x = moved_inside(x, size, rule);
  if (rule.sampling == Sampling::kNearest) {
    taps[0] = {pixel_at(std::nearbyint(x), size), 1};
    return 1;
  }
  const T low = std::floor(x), weight = x - low;
  taps[0] = {pixel_at(low, size), static_cast<double>(1 - weight)};
  taps[1] = {pixel_at(low + 1, size), static_cast<double>(weight)};
  return 2;
}

template <typename T>
void sample_grid(const KernelCall& call, const Reals<T>& grid) {
  const std::vector<int64_t>& in = call.input_shape(0);
  const size_t spatial = in.size() - 2;
  const GridRule rule = {outside_of(call.op.get(attr::kPaddingMode)),
                         sampling_of(call.op.get(attr::kMode)), call.op.get(attr::kAlignCorners)};
  const Reals<double> x = doubles(call, 0);
  std::array<int64_t, kMaxSpatial> size{1, 1, 1};
  for (size_t d = 0; d < spatial; ++d) size[kMaxSpatial - spatial + d] = in[2 + d];
  const int64_t pixels = size[0] * size[1] * size[2], channels = in[1];
  const int64_t points =
      in[0] == 0 ? 0 : static_cast<int64_t>(grid.size() / spatial) / in[0];  // per image
  Buffer<double> y(static_cast<size_t>(call.outputs[0].numel()));
  for (int64_t n = 0; n < in[0]; ++n)
    for (int64_t point = 0; point < points; ++point) {
      std::array<GridTaps, kMaxSpatial> taps;
      std::array<size_t, kMaxSpatial> counts{1, 1, 1};
      // the grid lists the last dimension first
      for (size_t d = 0; d < spatial; ++d)
        counts[2 - d] = grid_taps(
            grid[(n * points + point) * static_cast<int64_t>(spatial) + static_cast<int64_t>(d)],
            size[2 - d], rule, taps[2 - d]);
      for (int64_t c = 0; c < channels; ++c) {
        const double* plane = x.data() + (n * channels + c) * pixels;
        double sum = 0;
        for (size_t i = 0; i < counts[0]; ++i)
          for (size_t j = 0; j < counts[1]; ++j)
            for (size_t k = 0; k < counts[2]; ++k) {
              const SampleTap &a = taps[0][i], &b = taps[1][j], &e = taps[2][k];
              // outside is 0, but a NaN weight still gives NaN
              const bool is_outside = a.at < 0 || b.at < 0 || e.at < 0;
              const double value = is_outside ? 0 : plane[(a.at * size[1] + b.at) * size[2] + e.at];
              sum += value * a.weight * b.weight * e.weight;
            }
        y[static_cast<size_t>((n * channels + c) * points + point)] = sum;
      }
    }
  store<double>(call, y);
}

// Computes coordinates in the grid's precision, because their rounding selects pixels.
void grid_sample(const KernelCall& call) {
  call.input(1).dtype == DType::kFloat64 ? sample_grid<double>(call, doubles(call, 1))
                                         : sample_grid<float>(call, floats(call, 1));
}

// ---- checks

Verdict check_upsample(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& y = program.output(op).shape;
  const std::vector<double>& given = op.get(attr::kScales);
  if (x.size() < 3 || x.size() > 2 + kMaxSpatial || y.size() != x.size() || x[0] != y[0] ||
      x[1] != y[1] || (!given.empty() && given.size() != x.size() - 2) || product(x) == 0)
    return Verdict::refuse(fmt::format("cannot upsample {} to {}", shape_text(x), shape_text(y)));
  const std::string mode = op.get(attr::kMode);
  if (!find_resize(mode, x.size() - 2))
    return Verdict::refuse(fmt::format("mode {} does not fit input {}", mode, shape_text(x)));
  // at most as many taps as pixels
  for (size_t d = 0; d < x.size() - 2; ++d) {
    const double scale = resize_scale(op, d, x, y);
    if (!(scale >= 0 && scale < 1e9))
      return Verdict::refuse(fmt::format("scale {} is out of range", scale));
    if (mode.ends_with("_aa") &&
        scale * static_cast<double>(y[2 + d]) > 4 * static_cast<double>(x[2 + d]))
      return Verdict::refuse(fmt::format("scale {} does not match the sizes", scale));
  }
  return Verdict::accept();
}

Verdict check_grid_sample(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& grid = find_input(program, op, 1)->shape;
  const size_t rank = x.size();
  if ((rank != 4 && rank != 5) || grid.size() != rank || grid[0] != x[0] ||
      grid[rank - 1] != static_cast<int64_t>(rank) - 2 || product({x.begin() + 2, x.end()}) == 0)
    return Verdict::refuse(
        fmt::format("grid {} does not fit input {}", shape_text(grid), shape_text(x)));
  if (sampling_of(op.get(attr::kMode)) == Sampling::kCubic && rank != 4)
    return Verdict::refuse(fmt::format("mode bicubic does not fit input {}", shape_text(x)));
  std::vector<int64_t> want = {x[0], x[1]};
  want.insert(want.end(), grid.begin() + 1, grid.end() - 1);
  return check_output_shape(program, op, 0, want);
}

constexpr KernelRow kSampleKernels[] = {
    {"upsample", by_precision<upsample<float>, upsample<double>>, check_upsample},
    {"grid_sample", grid_sample, check_grid_sample},
};

}  // namespace

std::span<const KernelRow> sample_kernels() { return kSampleKernels; }

}  // namespace octet::reference

// conv and conv_transpose in one, two and three dimensions: integers are accumulated as integers,
// other types in double.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "backends/reference/elements.h"
#include "core/base/error.h"

namespace octet::reference {
namespace {

struct Geometry : SpatialWindows {
  int64_t batch = 1, groups = 1;
  int64_t in_channels = 1, out_channels = 1;  // per group
  int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
};

Geometry make_geometry(const KernelCall& call, bool is_transposed) {
  const std::vector<int64_t>& x = call.input_shape(0);
  const std::vector<int64_t>& w = call.input_shape(1);
  Geometry g;
  g.batch = x[0];
  g.groups = call.op.get(attr::kGroups);
  g.in_channels = x[1] / g.groups;
  g.out_channels = is_transposed ? w[1] : w[0] / g.groups;
  g.set(call, std::span(w).subspan(2), Sizes(w.size() - 2, 1));
  return g;
}

// Copies the kernel windows of output pixels [first, first + count) into columns[k, count], where k
// enumerates (channel, kernel position).
template <typename E>
void fill_columns(const Geometry& g, const E* image, int64_t first, int64_t count, E* columns) {
  for (int64_t c = 0; c < g.in_channels; ++c)
    for (int64_t kz = 0; kz < g.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < g.kernel[1]; ++ky)
        for (int64_t kx = 0; kx < g.kernel[2]; ++kx, columns += count) {
          int64_t ox = first % g.out[2];
          int64_t oy = first / g.out[2] % g.out[1];
          int64_t oz = first / g.out[2] / g.out[1];
          for (int64_t p = 0; p < count; ++p) {
            const int64_t x = ox * g.stride[2] - g.padding[2] + kx * g.dilation[2];
            const int64_t y = oy * g.stride[1] - g.padding[1] + ky * g.dilation[1];
            const int64_t z = oz * g.stride[0] - g.padding[0] + kz * g.dilation[0];
            const bool inside =
                x >= 0 && x < g.in[2] && y >= 0 && y < g.in[1] && z >= 0 && z < g.in[0];
            columns[p] = inside ? image[((c * g.in[0] + z) * g.in[1] + y) * g.in[2] + x] : E(0);
            if (++ox == g.out[2]) {
              ox = 0;
              if (++oy == g.out[1]) {
                oy = 0;
                ++oz;
              }
            }
          }
        }
}

// y[batch, groups * out_channels, out] as sums of products. Padding is 0, so x must be centered.
template <typename E, typename Acc>
void convolve(const Geometry& g, const E* x, const E* w, double* y) {
  constexpr int64_t kTile = 256;
  const int64_t depth = g.in_channels * g.kernel_size();
  const int64_t pixels = g.out_pixels();
  Buffer<E> columns(static_cast<size_t>(depth * std::min(kTile, std::max<int64_t>(pixels, 1))));
  std::array<Acc, kTile> sums;
  for (int64_t ng = 0; ng < g.batch * g.groups; ++ng) {
    const E* weights = w + (ng % g.groups) * g.out_channels * depth;
    for (int64_t first = 0; first < pixels; first += kTile) {
      const int64_t count = std::min(kTile, pixels - first);
      fill_columns(g, x + ng * g.in_channels * g.in_pixels(), first, count, columns.data());
      for (int64_t o = 0; o < g.out_channels; ++o) {
        sums.fill(0);
        for (int64_t k = 0; k < depth; ++k) {
          const Acc weight = weights[o * depth + k];
          const E* column = columns.data() + k * count;
          for (int64_t p = 0; p < count; ++p)
            sums[static_cast<size_t>(p)] += weight * static_cast<Acc>(column[p]);
        }
        double* row = y + (ng * g.out_channels + o) * pixels + first;
        for (int64_t p = 0; p < count; ++p)
          row[p] = static_cast<double>(sums[static_cast<size_t>(p)]);
      }
    }
  }
}

// The transposed convolution: adds each input pixel to all outputs that read it. w is [groups *
// in_channels, out_channels, kernel].
template <typename E, typename Acc>
void convolve_transposed(const Geometry& g, const E* x, const E* w, double* y) {
  const int64_t pixels = g.out_pixels();
  Buffer<Acc> sums(static_cast<size_t>(pixels));
  for (int64_t ng = 0; ng < g.batch * g.groups; ++ng)
    for (int64_t o = 0; o < g.out_channels; ++o) {
      std::fill(sums.begin(), sums.end(), Acc(0));
      for (int64_t c = 0; c < g.in_channels; ++c) {
        const E* image = x + (ng * g.in_channels + c) * g.in_pixels();
        const E* weight =
            w + (((ng % g.groups) * g.in_channels + c) * g.out_channels + o) * g.kernel_size();
        for (int64_t i = 0; i < g.in_pixels(); ++i) {
          const int64_t ix = i % g.in[2], iy = i / g.in[2] % g.in[1], iz = i / g.in[2] / g.in[1];
          for (int64_t k = 0; k < g.kernel_size(); ++k) {
            const int64_t ox = ix * g.stride[2] - g.padding[2] + k % g.kernel[2] * g.dilation[2];
            const int64_t oy =
                iy * g.stride[1] - g.padding[1] + k / g.kernel[2] % g.kernel[1] * g.dilation[1];
            const int64_t oz =
                iz * g.stride[0] - g.padding[0] + k / g.kernel[2] / g.kernel[1] * g.dilation[0];
            if (ox < 0 || ox >= g.out[2] || oy < 0 || oy >= g.out[1] || oz < 0 || oz >= g.out[0])
              continue;
            sums[static_cast<size_t>((oz * g.out[1] + oy) * g.out[2] + ox)] +=
                static_cast<Acc>(image[i]) * static_cast<Acc>(weight[k]);
          }
        }
      }
      std::transform(sums.begin(), sums.end(), y + (ng * g.out_channels + o) * pixels,
                     [](Acc sum) { return static_cast<double>(sum); });
    }
}

// The weight scale of an output channel. A transposed weight has output channels in dimension 1
// (one group), or one scale per tensor.
double weight_scale(const KernelCall& call, const Geometry& g, int64_t channel) {
  const TensorQParams& qparams = *call.input(1).qparams;
  return scale_at(qparams, qparams.axis == 1 ? channel % g.out_channels : channel);
}

// Integer sums are exact only if each output channel has one scale.
bool runs_on_integers(const KernelCall& call, bool is_transposed) {
  const ProgramTensor& x = call.input(0);
  const ProgramTensor& w = call.input(1);
  if (!is_small_quantized(x) || !is_small_quantized(w) || !x.qparams->is_per_tensor()) return false;
  return w.qparams->is_per_tensor() || w.qparams->axis == (is_transposed ? 1 : 0);
}

template <typename T>
void convolve_reals(const KernelCall& call, const Geometry& g, bool is_transposed, double* y) {
  const Reals<T> x = reals_of<T>(call, 0), w = reals_of<T>(call, 1);
  is_transposed ? convolve_transposed<T, double>(g, x.data(), w.data(), y)
                : convolve<T, double>(g, x.data(), w.data(), y);
}

void run_conv(const KernelCall& call, bool is_transposed) {
  const Geometry g = make_geometry(call, is_transposed);
  Buffer<double> y(static_cast<size_t>(call.outputs[0].numel()));
  const bool on_integers = runs_on_integers(call, is_transposed);
  if (on_integers) {
    const Buffer<int32_t> x = centered(call.inputs[0], call.input(0));
    const Buffer<int32_t> w = centered(call.inputs[1], call.input(1));
    const bool fits = size_of(call.input(0).dtype) == 1 && size_of(call.input(1).dtype) == 1 &&
                      g.in_channels * g.kernel_size() < 16000;
    if (is_transposed) {
      convolve_transposed<int32_t, int64_t>(g, x.data(), w.data(), y.data());
    } else if (fits) {
      convolve<int32_t, int32_t>(g, x.data(), w.data(), y.data());
    } else {
      convolve<int32_t, int64_t>(g, x.data(), w.data(), y.data());
    }
  } else {
    call.input(0).dtype == DType::kFloat64
        ? convolve_reals<double>(call, g, is_transposed, y.data())
        : convolve_reals<float>(call, g, is_transposed, y.data());
  }
  const int64_t channels = g.groups * g.out_channels;
  const Buffer<double> bias = bias_or_zeros(call, 2, channels);
  for (int64_t nc = 0; nc < g.batch * channels; ++nc) {
    const int64_t channel = nc % channels;
    const double scale = on_integers ? static_cast<double>(call.input(0).qparams->scale[0]) *
                                           weight_scale(call, g, channel)
                                     : 1.0;
    double* row = y.data() + nc * g.out_pixels();
    for (int64_t p = 0; p < g.out_pixels(); ++p)
      row[p] = row[p] * scale + bias[static_cast<size_t>(channel)];
  }
  store<double>(call, y);
}

void conv(const KernelCall& call) { run_conv(call, false); }
void conv_transpose(const KernelCall& call) { run_conv(call, true); }

Verdict check_conv_shapes(const Program& program, const ProgramOp& op, bool is_transposed) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& w = find_input(program, op, 1)->shape;
  const size_t spatial = x.size() - 2;
  const int64_t groups = op.get(attr::kGroups);
  if (groups < 1 || groups > kLargestAttribute || x[1] % groups != 0 || w[0] % groups != 0)
    return Verdict::refuse(fmt::format("{} channels do not divide into {} groups", x[1], groups));
  const int64_t out_channels = is_transposed ? w[1] * groups : w[0];
  std::vector<int64_t> want = {x[0], out_channels};
  if ((is_transposed ? w[0] : w[1] * groups) != x[1])
    return Verdict::refuse(fmt::format("weight {} does not fit {} input channels in {} groups",
                                       shape_text(w), x[1], groups));
  const std::vector<int64_t> ones(spatial, 1), zeros(spatial, 0);
  const std::vector<int64_t> stride = op.get(attr::kStride, ones),
                             padding = op.get(attr::kPadding, zeros),
                             dilation = op.get(attr::kDilation, ones);
  const std::vector<int64_t> extra = op.get(attr::kOutputPadding, zeros),
                             padding_end = op.get(attr::kPaddingEnd, padding);
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t reach = dilation[d] * (w[2 + d] - 1);
    const int64_t size = is_transposed
                             ? (x[2 + d] - 1) * stride[d] - 2 * padding[d] + reach + extra[d] + 1
                             : (x[2 + d] + padding[d] + padding_end[d] - reach - 1) / stride[d] + 1;
    want.push_back(size);
  }
  if (Verdict shape = check_output_shape(program, op, 0, want); !shape) return shape;
  return check_bias(program, op, out_channels);
}

Verdict check_conv_kind(const Program& program, const ProgramOp& op, bool is_transposed) {
  const size_t rank = find_input(program, op, 0)->shape.size();
  if (rank < 3 || rank > 2 + kMaxSpatial || find_input(program, op, 1)->shape.size() != rank)
    return Verdict::refuse(fmt::format("input rank {} and weight rank {}, want both 3 to 5", rank,
                                       find_input(program, op, 1)->shape.size()));
  if (Verdict windows = check_windows(op, rank - 2); !windows) return windows;
  return check_conv_shapes(program, op, is_transposed);
}

Verdict check_conv(const Program& program, const ProgramOp& op) {
  return check_conv_kind(program, op, false);
}
Verdict check_conv_transpose(const Program& program, const ProgramOp& op) {
  return check_conv_kind(program, op, true);
}

constexpr KernelRow kConvKernels[] = {
    {"conv", conv, check_conv},
    {"conv_transpose", conv_transpose, check_conv_transpose},
};

}  // namespace

std::span<const KernelRow> conv_kernels() { return kConvKernels; }

}  // namespace octet::reference

// Ops on windows: max_pool, avg_pool, adaptive_avg_pool, adaptive_max_pool, im2col, col2im.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "backends/reference/elements.h"

namespace octet::reference {
namespace {

struct Window : SpatialWindows {
  int64_t planes = 1;  // batch * channels
};

bool is_adaptive(const ProgramOp& op) {
  return op.is("adaptive_avg_pool") || op.is("adaptive_max_pool");
}

size_t spatial_rank(const ProgramOp& op) {
  return op.get(is_adaptive(op) ? attr::kOutputSize : attr::kKernelSize).size();
}

Window make_window(const KernelCall& call) {
  const std::vector<int64_t>& x = call.input_shape(0);
  const size_t spatial = spatial_rank(call.op);
  const Sizes kernel = call.sizes(attr::kKernelSize, Sizes(spatial, 1));
  Window window;
  for (size_t d = 0; d < x.size() - spatial; ++d) window.planes *= x[d];
  window.set(call, kernel, kernel);
  return window;
}

// Calls visit(index into the plane) for each input pixel of the window at `start`, except padding.
template <typename Visit>
void visit_window(const Window& w, const Size3& start, const Visit& visit) {
  Size3 first, end;  // kernel positions
  for (size_t d = 0; d < kMaxSpatial; ++d) {
    first[d] = start[d] < 0 ? (w.dilation[d] - 1 - start[d]) / w.dilation[d] : 0;
    end[d] = start[d] < w.in[d]
                 ? std::min(w.kernel[d], (w.in[d] - 1 - start[d]) / w.dilation[d] + 1)
                 : 0;
  }
  for (int64_t kz = first[0]; kz < end[0]; ++kz)
    for (int64_t ky = first[1]; ky < end[1]; ++ky)
      for (int64_t kx = first[2]; kx < end[2]; ++kx) {
        const int64_t z = start[0] + kz * w.dilation[0], y = start[1] + ky * w.dilation[1],
                      x = start[2] + kx * w.dilation[2];
        visit((z * w.in[1] + y) * w.in[2] + x);
      }
}

// Calls pool(plane, start of the window) for each output pixel in order, and stores the results.
template <typename Pool>
void for_each_window(const KernelCall& call, const Window& w, const Pool& pool) {
  Buffer<double> y;
  y.reserve(static_cast<size_t>(call.outputs[0].numel()));
  for (int64_t plane = 0; plane < w.planes; ++plane)
    for (int64_t oz = 0; oz < w.out[0]; ++oz)
      for (int64_t oy = 0; oy < w.out[1]; ++oy)
        for (int64_t ox = 0; ox < w.out[2]; ++ox)
          y.push_back(
              pool(plane, Size3{oz * w.stride[0] - w.padding[0], oy * w.stride[1] - w.padding[1],
                                ox * w.stride[2] - w.padding[2]}));
  store<double>(call, y);
}

// The maximum of a window and its index in the plane: the first of equal elements, the last NaN.
struct Greatest {
  double value = -INFINITY;
  int64_t at = -1;
  void take(double x, int64_t i) {
    if (at >= 0 && x <= value) return;
    if (at >= 0 && std::isnan(value) && !std::isnan(x)) return;
    value = x;
    at = i;
  }
};

void store_places(const KernelCall& call, const Sizes& places) {
  if (call.outputs.size() > 1)
    std::copy(places.begin(), places.end(), call.outputs[1].data<int64_t>());
}

template <typename T>
void max_pool(const KernelCall& call) {
  const Window w = make_window(call);
  const Reals<T> x = reals_of<T>(call, 0);
  Sizes places;
  for_each_window(call, w, [&](int64_t plane, const Size3& start) {
    Greatest greatest;
    visit_window(w, start, [&](int64_t i) { greatest.take(x[plane * w.in_pixels() + i], i); });
    if (call.outputs.size() > 1) places.push_back(greatest.at);
    return greatest.value;
  });
  store_places(call, places);
}

template <typename T>
void avg_pool(const KernelCall& call) {
  const Window w = make_window(call);
  const Reals<T> x = reals_of<T>(call, 0);
  const bool count_padding = call.op.get(attr::kCountIncludePad);
  const int64_t divisor = call.op.get(attr::kDivisorOverride);
  for_each_window(call, w, [&](int64_t plane, const Size3& start) {
    double sum = 0;
    int64_t count = 0;
    visit_window(w, start, [&](int64_t i) {
      sum += x[plane * w.in_pixels() + i];
      ++count;
    });
    if (count_padding) {
      count = 1;
      for (size_t d = 0; d < kMaxSpatial; ++d)
        count *= std::min(start[d] + w.kernel[d], w.in[d] + w.padding[d]) - start[d];
    }
    return count == 0 && divisor == 0 ? 0.0
                                      : sum / static_cast<double>(divisor != 0 ? divisor : count);
  });
}

// Calls visit(index into the plane) for each input pixel of output pixel i, counted over all
// planes.
template <typename Visit>
void visit_share(const Window& w, int64_t i, const Visit& visit) {
  const Size3 out = {i / w.out[2] / w.out[1] % w.out[0], i / w.out[2] % w.out[1], i % w.out[2]};
  const auto begin = [&](size_t d) { return out[d] * w.in[d] / w.out[d]; };
  const auto end = [&](size_t d) { return ((out[d] + 1) * w.in[d] + w.out[d] - 1) / w.out[d]; };
  for (int64_t z = begin(0); z < end(0); ++z)
    for (int64_t y = begin(1); y < end(1); ++y)
      for (int64_t x = begin(2); x < end(2); ++x) visit((z * w.in[1] + y) * w.in[2] + x);
}

template <typename T>
void adaptive_avg_pool(const KernelCall& call) {
  const Window w = make_window(call);
  const Reals<T> x = reals_of<T>(call, 0);
  Buffer<double> result;
  for (int64_t i = 0, n = w.planes * w.out_pixels(); i < n; ++i) {
    double sum = 0;
    int64_t count = 0;
    visit_share(w, i, [&](int64_t at) {
      sum += x[i / w.out_pixels() * w.in_pixels() + at];
      ++count;
    });
    result.push_back(sum / static_cast<double>(count));
  }
  store<double>(call, result);
}

void adaptive_max_pool(const KernelCall& call) {
  const Window w = make_window(call);
  const Reals<double> x = doubles(call, 0);
  Buffer<double> result;
  Sizes places;
  for (int64_t i = 0, n = w.planes * w.out_pixels(); i < n; ++i) {
    Greatest greatest;
    visit_share(w, i,
                [&](int64_t at) { greatest.take(x[i / w.out_pixels() * w.in_pixels() + at], at); });
    result.push_back(greatest.value);
    places.push_back(greatest.at);
  }
  store<double>(call, result);
  store_places(call, places);
}

// ---- checks

int64_t pooled_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                    bool ceil_mode) {
  const int64_t reach = in + 2 * padding - dilation * (kernel - 1) - 1;
  if (reach < 0) return 0;
  int64_t size = (reach + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (size - 1) * stride >= in + padding) --size;
  return size;
}

Verdict check_pool(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const size_t spatial = spatial_rank(op);
  if (spatial < 1 || spatial > kMaxSpatial || x.size() < spatial)
    return Verdict::refuse(
        fmt::format("{} spatial dimensions do not fit input {}", spatial, shape_text(x)));
  const size_t lead = x.size() - spatial;
  std::vector<int64_t> want = x;
  if (Verdict attributes = check_windows(op, spatial); !attributes) return attributes;
  if (is_adaptive(op)) {
    const std::vector<int64_t>& sizes = op.get(attr::kOutputSize);
    std::copy(sizes.begin(), sizes.end(), want.begin() + static_cast<std::ptrdiff_t>(lead));
  } else {
    const std::vector<int64_t> kernel = op.get(attr::kKernelSize), ones(spatial, 1),
                               zeros(spatial, 0);
    const std::vector<int64_t> stride = op.get(attr::kStride, kernel),
                               padding = op.get(attr::kPadding, zeros),
                               dilation = op.get(attr::kDilation, ones);
    for (size_t d = 0; d < spatial; ++d)
      want[lead + d] = pooled_size(x[lead + d], kernel[d], stride[d], padding[d], dilation[d],
                                   op.get(attr::kCeilMode));
  }
  if (Verdict shape = check_output_shape(program, op, 0, want); !shape) return shape;
  if (op.outputs.size() == 1) return Verdict::accept();
  if (Verdict dtype = check_index_output(program, op, 1); !dtype) return dtype;
  return check_output_shape(program, op, 1, want);
}

// ---- im2col, col2im

struct Columns {
  int64_t planes = 1;  // batch * channels
  std::array<int64_t, 2> image, kernel, stride, padding, dilation, windows;

  // Calls visit(element of the image, element of the columns) for each pair of corresponding
  // elements, plane by plane; skips padding.
  template <typename Visit>
  void for_each_pair(const Visit& visit) const {
    const int64_t count = windows[0] * windows[1];
    for (int64_t plane = 0; plane < planes; ++plane)
      for (int64_t k = 0; k < kernel[0] * kernel[1]; ++k)
        for (int64_t i = 0; i < count; ++i) {
          const int64_t y = i / windows[1] * stride[0] - padding[0] + k / kernel[1] * dilation[0],
                        x = i % windows[1] * stride[1] - padding[1] + k % kernel[1] * dilation[1];
          if (y < 0 || y >= image[0] || x < 0 || x >= image[1]) continue;
          visit((plane * image[0] + y) * image[1] + x,
                (plane * kernel[0] * kernel[1] + k) * count + i);
        }
  }
};

// For an image [N, C, H, W] or [C, H, W]; nullopt when the attributes do not fit.
std::optional<Columns> find_columns(const ProgramOp& op, const std::vector<int64_t>& image) {
  if (image.size() != 3 && image.size() != 4) return std::nullopt;
  Columns columns;
  for (size_t d = 0; d + 2 < image.size(); ++d) columns.planes *= image[d];
  if (!check_windows(op, 2)) return std::nullopt;
  const auto at = [&](const attr::Integers& key, size_t d, int64_t fallback) {
    return op.has(key) ? op.get(key)[d] : fallback;
  };
  for (size_t d = 0; d < 2; ++d) {
    columns.image[d] = image[image.size() - 2 + d];
    columns.kernel[d] = at(attr::kKernelSize, d, 1);
    columns.stride[d] = at(attr::kStride, d, 1);
    columns.padding[d] = at(attr::kPadding, d, 0);
    columns.dilation[d] = at(attr::kDilation, d, 1);
    const int64_t reach = columns.image[d] + 2 * columns.padding[d] -
                          columns.dilation[d] * (columns.kernel[d] - 1) - 1;
    if (reach < 0) return std::nullopt;
    columns.windows[d] = reach / columns.stride[d] + 1;
  }
  return columns;
}

void im2col(const KernelCall& call) {
  const Columns columns = *find_columns(call.op, call.input_shape(0));
  const Buffer<double> image = elements<double>(call, 0);
  Buffer<double> y(static_cast<size_t>(call.outputs[0].numel()), 0.0);
  columns.for_each_pair([&](int64_t pixel, int64_t at) {
    y[static_cast<size_t>(at)] = image[static_cast<size_t>(pixel)];
  });
  store<double>(call, y);
}

void col2im(const KernelCall& call) {
  const Columns columns = *find_columns(call.op, call.output_shape());
  const Buffer<double> x = elements<double>(call, 0);
  Buffer<double> image(static_cast<size_t>(call.outputs[0].numel()), 0.0);
  columns.for_each_pair([&](int64_t pixel, int64_t at) {
    image[static_cast<size_t>(pixel)] += x[static_cast<size_t>(at)];
  });
  store<double>(call, image);
}

Verdict check_columns(const Program& program, const ProgramOp& op) {
  const bool makes_columns = op.is("im2col");
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& y = program.output(op).shape;
  const std::vector<int64_t>& image = makes_columns ? x : y;
  const std::optional<Columns> columns = find_columns(op, image);
  if (!columns)
    return Verdict::refuse(fmt::format("its windows do not fit the image {}", shape_text(image)));
  if (!makes_columns) {
    const std::vector<int64_t> size = op.get(attr::kOutputSize);
    if (size != std::vector<int64_t>(columns->image.begin(), columns->image.end()))
      return Verdict::refuse(fmt::format("output_size {} does not fit the image {}",
                                         shape_text(size), shape_text(image)));
  }
  const int64_t kernel = columns->kernel[0] * columns->kernel[1];
  const int64_t channels = image[image.size() - 3];
  if (channels > 0 && kernel > INT64_MAX / channels)
    return Verdict::refuse("its windows are too large");
  std::vector<int64_t> want(image.begin(), image.end() - 3);
  want.push_back(channels * kernel);
  want.push_back(columns->windows[0] * columns->windows[1]);
  const std::vector<int64_t>& got = makes_columns ? y : x;
  if (got == want) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("columns of shape {}, want {}", shape_text(got), shape_text(want)));
}

// ---- the rows

constexpr KernelRow kPoolKernels[] = {
    {"max_pool", by_precision<max_pool<float>, max_pool<double>>, check_pool},
    {"avg_pool", by_precision<avg_pool<float>, avg_pool<double>>, check_pool},
    {"adaptive_avg_pool", by_precision<adaptive_avg_pool<float>, adaptive_avg_pool<double>>,
     check_pool},
    {"adaptive_max_pool", adaptive_max_pool, check_pool},
    {"im2col", im2col, check_columns},
    {"col2im", col2im, check_columns},
};

}  // namespace

std::span<const KernelRow> pool_kernels() { return kPoolKernels; }

}  // namespace octet::reference

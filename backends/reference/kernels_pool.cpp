// Windows and reductions: max_pool, avg_pool, adaptive_avg_pool, adaptive_max_pool.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "backends/reference/elements.h"

namespace octet::reference {
namespace {

// Pooling sizes, with leading spatial dimensions of 1 up to three.
struct Window {
  int64_t planes = 1;  // batch * channels
  Size3 in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0},
      dilation{1, 1, 1};
  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
};

bool is_adaptive(const ProgramOp& op) {
  return op.kind == "adaptive_avg_pool" || op.kind == "adaptive_max_pool";
}

const char* size_key(const ProgramOp& op) {
  return is_adaptive(op) ? "output_size" : "kernel_size";
}

size_t spatial_rank(const ProgramOp& op) { return op.integers(size_key(op)).size(); }

Window make_window(const KernelCall& call) {
  const std::vector<int64_t>& x = call.input_shape(0);
  const size_t spatial = call.integers(size_key(call.op)).size();
  const size_t lead = x.size() - spatial;
  const Sizes ones(spatial, 1), zeros(spatial, 0);
  const Sizes kernel = call.integers("kernel_size", ones);
  const Sizes stride = call.integers("stride", kernel), padding = call.integers("padding", zeros),
              dilation = call.integers("dilation", ones);
  Window window;
  for (size_t d = 0; d < lead; ++d) window.planes *= x[d];
  for (size_t d = 0; d < spatial; ++d) {
    const size_t at = kMaxSpatial - spatial + d;
    window.in[at] = x[lead + d];
    window.out[at] = call.output_shape()[lead + d];
    window.kernel[at] = kernel[d];
    window.stride[at] = stride[d];
    window.padding[at] = padding[d];
    window.dilation[at] = dilation[d];
  }
  return window;
}

// Calls visit(index into the plane) for each input pixel of the window at `start` that is not
// padding.
template <typename Visit>
void visit_window(const Window& w, const Size3& start, const Visit& visit) {
  Size3 first, end;  // of the kernel's positions
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

// Calls pool(plane, start of the window) for each output pixel, in order, and stores what it
// returns.
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

// The greatest element of a window and its place in the plane: the first of equals, the last NaN.
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
  const bool count_padding = call.op.flag("count_include_pad", true);
  const int64_t divisor = call.op.integer("divisor_override", 0);
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

// Calls visit(index into the plane) for each input pixel of output pixel i of all planes.
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

Verdict check_pool_attributes(const ProgramOp& op, size_t spatial) {
  struct Limit {
    const char* key;
    int64_t least;
  };
  for (const Limit& limit :
       {Limit{"kernel_size", 1}, Limit{"stride", 1}, Limit{"dilation", 1}, Limit{"padding", 0}}) {
    if (!op.attributes.contains(limit.key)) continue;
    const std::vector<int64_t> values = op.integers(limit.key);
    if (values.size() != spatial)
      return Verdict::refuse(
          fmt::format("{} has {} entries, want {}", limit.key, values.size(), spatial));
    for (int64_t value : values)
      if (value < limit.least || value > kLargestAttribute)
        return Verdict::refuse(fmt::format("{} has entry {}", limit.key, value));
  }
  return Verdict::accept();
}

int64_t pooled_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                    bool ceil_mode) {
  const int64_t reach = in + 2 * padding - dilation * (kernel - 1) - 1;
  if (reach < 0) return 0;
  int64_t size = (reach + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (size - 1) * stride >= in + padding) --size;
  return size;
}

Verdict check_pool(const Program& program, const ProgramOp& op) {
  const bool gives_places = op.kind == "max_pool" || op.kind == "adaptive_max_pool";
  if (Verdict counts = check_counts(op, 1, 1, 1, gives_places ? 2 : 1); !counts) return counts;
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& y = program.tensor(op.outputs[0]).shape;
  const size_t spatial = spatial_rank(op);
  if (spatial < 1 || spatial > kMaxSpatial || x.size() < spatial)
    return Verdict::refuse(
        fmt::format("{} spatial dimensions for input {}", spatial, shape_text(x)));
  const size_t lead = x.size() - spatial;
  std::vector<int64_t> want = x;
  if (Verdict attributes = check_pool_attributes(op, spatial); !attributes) return attributes;
  if (is_adaptive(op)) {
    const std::vector<int64_t> sizes = op.integers("output_size");
    for (size_t d = 0; d < spatial; ++d) want[lead + d] = sizes[d];
  } else {
    const std::vector<int64_t> kernel = op.integers("kernel_size"), ones(spatial, 1),
                               zeros(spatial, 0);
    const std::vector<int64_t> stride = op.integers("stride", kernel),
                               padding = op.integers("padding", zeros),
                               dilation = op.integers("dilation", ones);
    for (size_t d = 0; d < spatial; ++d)
      want[lead + d] = pooled_size(x[lead + d], kernel[d], stride[d], padding[d], dilation[d],
                                   op.flag("ceil_mode"));
  }
  if (y != want)
    return Verdict::refuse(
        fmt::format("output shape {}, want {}", shape_text(y), shape_text(want)));
  if (op.outputs.size() == 1) return Verdict::accept();
  if (Verdict dtype = check_index_output(program, op, 1); !dtype) return dtype;
  return check_output_shape(program, op, 1, want);
}

constexpr KernelRow kPoolKernels[] = {
    {"max_pool", by_precision<max_pool<float>, max_pool<double>>, check_pool},
    {"avg_pool", by_precision<avg_pool<float>, avg_pool<double>>, check_pool},
    {"adaptive_avg_pool", by_precision<adaptive_avg_pool<float>, adaptive_avg_pool<double>>,
     check_pool},
    {"adaptive_max_pool", adaptive_max_pool, check_pool},
};

}  // namespace

std::span<const KernelRow> pool_kernels() { return kPoolKernels; }

}  // namespace octet::reference

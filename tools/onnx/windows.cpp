// Pooling.
#include <algorithm>
#include <numeric>

#include "tools/onnx/steps.h"

namespace octet {
namespace {

// Kernel, strides and pads of a pooling over the last `spatial` dimensions.
struct Window {
  std::vector<int64_t> kernel, strides, pads, dilations;
};

Window window_of(const OnnxSteps& s, size_t spatial) {
  Window window;
  window.kernel = as_many(s.node.ints_or("kernel_size", {1}), spatial);
  window.strides = as_many(s.node.ints_or("stride", {}), spatial);
  if (window.strides.empty()) window.strides = window.kernel;
  window.pads = as_many(s.node.ints_or("padding", {0}), spatial);
  window.pads.insert(window.pads.end(), window.pads.begin(), window.pads.end());
  window.dilations = as_many(s.node.ints_or("dilation", {1}), spatial);
  return window;
}

// Whether rounding up gives more windows than rounding down, as far as sizes are known.
bool rounds_up(const OnnxSteps& s, const Window& window) {
  if (!s.node.bool_or("ceil_mode", false)) return false;
  const std::vector<Dim>& sizes = s.meta(s.self()).sizes;
  const size_t spatial = window.kernel.size(), first = sizes.size() - spatial;
  for (size_t d = 0; d < spatial; ++d) {
    const Dim& size = sizes[first + d];
    const int64_t reach = window.dilations[d] * (window.kernel[d] - 1) + 1;
    const int64_t rest = size.value + 2 * window.pads[d] - reach;
    if (size.is_symbolic() || rest % window.strides[d] != 0) return true;
  }
  return false;
}

size_t spatial_rank(const Node& node) {
  return node.target().find("1d") != std::string::npos   ? 1
         : node.target().find("3d") != std::string::npos ? 3
                                                         : 2;
}

// Of images without a batch too.
void give_pooled(OnnxSteps& s, const char* type, size_t spatial, OnnxAttributes attributes) {
  const bool has_batch = s.rank(s.self()) == spatial + 2;
  const std::string x = has_batch ? s.x() : s.unsqueeze(s.x(), {0});
  const std::string y = s.op(type, {x}, std::move(attributes));
  s.give(has_batch ? y : s.squeeze(y, {0}));
}

void convert_max_pool(OnnxSteps& s) {
  const std::vector<Value*> results = s.node.outputs();
  if (results.size() > 1 && !results[1]->is_unused()) return s.refuse("whose indices are used");
  const size_t spatial = spatial_rank(s.node);
  const Window window = window_of(s, spatial);
  give_pooled(s, "MaxPool", spatial,
              {{"kernel_shape", window.kernel},
               {"strides", window.strides},
               {"pads", window.pads},
               {"dilations", window.dilations},
               {"ceil_mode", int64_t{rounds_up(s, window)}}});
}

void convert_avg_pool(OnnxSteps& s) {
  if (s.has("divisor_override")) return s.refuse("with a divisor of its own");
  const size_t spatial = spatial_rank(s.node);
  const Window window = window_of(s, spatial);
  give_pooled(s, "AveragePool", spatial,
              {{"kernel_shape", window.kernel},
               {"strides", window.strides},
               {"pads", window.pads},
               {"ceil_mode", int64_t{rounds_up(s, window)}},
               {"count_include_pad", int64_t{s.node.bool_or("count_include_pad", true)}}});
}

// ---- pooling to a given size

// [in, out] whose product with a line of `in` numbers is the means of its `out` windows.
Tensor means(int64_t in, int64_t out) {
  Tensor matrix = Tensor::zeros(DType::kFloat32, {in, out});
  for (int64_t j = 0; j < out; ++j) {
    const int64_t first = j * in / out, last = ((j + 1) * in + out - 1) / out;
    for (int64_t i = first; i < last; ++i)
      matrix.data<float>()[i * out + j] = 1.0f / static_cast<float>(last - first);
  }
  return matrix;
}

// One dimension after the other, each as a product.
std::string averaged(OnnxSteps& s, const std::vector<int64_t>& in, const std::vector<int64_t>& out,
                     size_t spatial) {
  std::string y = s.x();
  const size_t rank = in.size();
  for (size_t d = rank - spatial; d < rank; ++d) {
    if (in[d] == out[d]) continue;
    std::vector<int64_t> dims(rank);
    std::iota(dims.begin(), dims.end(), 0);
    std::swap(dims[d], dims[rank - 1]);
    const bool is_last = d + 1 == rank;
    if (!is_last) y = s.transpose(y, dims);
    y = s.op("MatMul", {y, s.constant("means", means(in[d], out[d]))});
    if (!is_last) y = s.transpose(y, dims);
  }
  return y;
}

bool gives_one(const std::vector<int64_t>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 1; });
}

void give_adaptive(OnnxSteps& s, const char* global, const char* pool, bool is_mean) {
  const std::vector<Value*> results = s.node.outputs();
  if (results.size() > 1 && !results[1]->is_unused()) return s.refuse("whose indices are used");
  const size_t spatial = spatial_rank(s.node), rank = s.rank(s.self());
  if (gives_one(s.node.ints_or("output_size", {0})) && rank == spatial + 2)
    return s.give(s.op(global, {s.x()}));
  std::vector<int64_t> in, out, factors;
  bool divides = true, is_same = true;
  for (size_t d = 0; d < rank; ++d) {
    const bool is_spatial = d + spatial >= rank;
    const Dim& from = s.meta(s.self()).sizes[d];
    const Dim& to = s.meta(s.result()).sizes[d];
    if (is_spatial && (from.is_symbolic() || to.is_symbolic()))
      return s.refuse("along a dimension whose size is not fixed");
    in.push_back(from.value);
    out.push_back(to.value);
    if (!is_spatial) continue;
    divides &= out[d] > 0 && in[d] % out[d] == 0;
    is_same &= out[d] == in[d];
    if (out[d] > 0) factors.push_back(in[d] / out[d]);
  }
  if (is_same) return s.give(s.x());
  if (divides)
    return give_pooled(s, pool, spatial, {{"kernel_shape", factors}, {"strides", factors}});
  if (!is_mean || s.dtype(s.self()) != DType::kFloat32)
    return s.refuse("to a size that does not divide the input's");
  s.give(averaged(s, in, out, spatial));
}
void convert_adaptive_avg_pool(OnnxSteps& s) {
  give_adaptive(s, "GlobalAveragePool", "AveragePool", true);
}
void convert_adaptive_max_pool(OnnxSteps& s) {
  give_adaptive(s, "GlobalMaxPool", "MaxPool", false);
}

constexpr OnnxRow kWindowRows[] = {
    {"aten.max_pool1d", convert_max_pool},
    {"aten.max_pool2d", convert_max_pool},
    {"aten.max_pool3d", convert_max_pool},
    {"aten.max_pool2d_with_indices", convert_max_pool},
    {"aten.avg_pool1d", convert_avg_pool},
    {"aten.avg_pool2d", convert_avg_pool},
    {"aten.avg_pool3d", convert_avg_pool},
    {"aten.adaptive_avg_pool1d", convert_adaptive_avg_pool},
    {"aten.adaptive_avg_pool2d", convert_adaptive_avg_pool},
    {"aten.adaptive_avg_pool3d", convert_adaptive_avg_pool},
    {"aten._adaptive_avg_pool2d", convert_adaptive_avg_pool},
    {"aten.adaptive_max_pool1d", convert_adaptive_max_pool},
    {"aten.adaptive_max_pool2d", convert_adaptive_max_pool},
    {"aten.adaptive_max_pool3d", convert_adaptive_max_pool},
};

}  // namespace

std::span<const OnnxRow> window_onnx_rows() { return kWindowRows; }

}  // namespace octet

// Writes pools, resizing, and sampling by grids.
#include <algorithm>

#include "core/base/shape.h"
#include "tools/onnx/steps.h"

namespace octet {
namespace {

// The window of a pool over the last dimensions of [N, C, ...].
struct Window {
  std::vector<int64_t> kernel, strides, pads, dilations;
};

std::vector<int64_t> twice(std::vector<int64_t> values) {
  values.reserve(2 * values.size());
  values.insert(values.end(), values.begin(), values.end());
  return values;
}

Window window_of(const OnnxSteps& s) {
  Window window;
  window.kernel = s.source.get(attr::kKernelSize);
  const std::vector<int64_t> ones(window.kernel.size(), 1), zeros(window.kernel.size(), 0);
  window.strides = s.source.get(attr::kStride, window.kernel);
  window.pads = twice(s.source.get(attr::kPadding, zeros));
  window.dilations = s.source.get(attr::kDilation, ones);
  return window;
}

// Whether rounding up gives more windows than rounding down, for known sizes.
bool rounds_up(const OnnxSteps& s, const Window& window) {
  if (!s.source.get(attr::kCeilMode)) return false;
  const std::vector<SizeExpr> sizes = sizes_of(s.in());
  for (size_t d = 0; d < window.kernel.size(); ++d) {
    const int64_t reach = window.dilations[d] * (window.kernel[d] - 1) + 1;
    const SizeExpr& size = sizes[2 + d];
    if (!size.is_number() || (size.number() + 2 * window.pads[d] - reach) % window.strides[d] != 0)
      return true;
  }
  return false;
}

OnnxAttributes attributes_of(const Window& window) {
  return {{"kernel_shape", window.kernel}, {"strides", window.strides}, {"pads", window.pads}};
}

void write_max_pool(OnnxSteps& s) {
  const Window window = window_of(s);
  OnnxAttributes attributes = attributes_of(window);
  attributes.emplace_back("dilations", window.dilations);
  attributes.emplace_back("ceil_mode", int64_t{rounds_up(s, window)});
  s.give(s.op("MaxPool", {s.x()}, std::move(attributes)));
}

void write_avg_pool(OnnxSteps& s) {
  const Window window = window_of(s);
  const int64_t divisor = s.source.get(attr::kDivisorOverride);
  const bool is_up = rounds_up(s, window);
  if (divisor != 0 && is_up) return s.refuse("with divisor_override and ceil_mode");
  OnnxAttributes attributes = attributes_of(window);
  attributes.emplace_back("ceil_mode", int64_t{is_up});
  attributes.emplace_back("count_include_pad",
                          int64_t{divisor != 0 || s.source.get(attr::kCountIncludePad)});
  const std::string y = s.op("AveragePool", {s.x()}, std::move(attributes));
  const double count = static_cast<double>(product(window.kernel));
  s.give(divisor == 0 ? y : s.mul(y, s.number(count / static_cast<double>(divisor))));
}

// ---- pooling to a given size

// A matrix [in, out] that maps `in` numbers to the means of their `out` windows.
Tensor means(int64_t in, int64_t out) {
  Tensor matrix = Tensor::zeros(DType::kFloat32, {in, out});
  for (int64_t j = 0; j < out; ++j) {
    const int64_t first = j * in / out, last = ((j + 1) * in + out - 1) / out;
    for (int64_t i = first; i < last; ++i)
      matrix.data<float>()[i * out + j] = 1.0f / static_cast<float>(last - first);
  }
  return matrix;
}

// Averages one dimension after the other, each by a product.
std::string averaged(OnnxSteps& s) {
  std::string y = s.x();
  const std::vector<int64_t>&in = s.in().shape, &out = s.out().shape;
  for (size_t d = 2; d < in.size(); ++d) {
    if (in[d] == out[d]) continue;
    std::vector<int64_t> dims = counted(in.size());
    std::swap(dims[d], dims.back());
    y = s.transpose(y, dims);
    y = s.op("MatMul", {y, s.constant("means", means(in[d], out[d]))});
    y = s.transpose(y, dims);
  }
  return y;
}

void write_adaptive_avg_pool(OnnxSteps& s) {
  const std::vector<int64_t> wanted = s.source.get(attr::kOutputSize);
  if (std::ranges::all_of(wanted, [](int64_t size) { return size == 1; }))
    return s.give(s.op("GlobalAveragePool", {s.x()}));
  const std::vector<SizeExpr> in = sizes_of(s.in());
  std::vector<int64_t> factors;
  bool divides = true, is_same = true;
  for (size_t d = 0; d < wanted.size(); ++d) {
    if (!in[2 + d].is_number()) return s.refuse("along a dimension whose size is not fixed");
    const int64_t size = in[2 + d].number();
    divides &= wanted[d] > 0 && size % wanted[d] == 0;
    is_same &= size == wanted[d];
    if (wanted[d] > 0) factors.push_back(size / wanted[d]);
  }
  if (is_same) return s.give(s.x());
  if (divides)
    return s.give(s.op("AveragePool", {s.x()}, {{"kernel_shape", factors}, {"strides", factors}}));
  if (s.dtype() != DType::kFloat32) return s.refuse("to a size that does not divide the input's");
  s.give(averaged(s));
}

// ---- columns of windows

// Writes im2col as a convolution with one kernel per position in the window: 1 there, 0 elsewhere.
void write_im2col(OnnxSteps& s) {
  const Window window = window_of(s);
  const int64_t count = product(window.kernel), channels = s.in().shape[s.rank() - 3];
  Tensor kernels = Tensor::zeros(DType::kFloat32, {count, 1, window.kernel[0], window.kernel[1]});
  for (int64_t i = 0; i < count; ++i) kernels.data<float>()[i * count + i] = 1;
  std::vector<SizeExpr> planes = sizes_of(s.in());
  planes.erase(planes.begin(), planes.end() - 2);
  planes.insert(planes.begin(), {SizeExpr(-1), SizeExpr(1)});
  const bool has_batch = s.rank() == 4;
  OnnxAttributes attributes = attributes_of(window);
  attributes.emplace_back("dilations", window.dilations);
  const std::string columns =
      s.op("Conv", {s.op("Reshape", {s.x(), s.sizes(planes)}), s.constant("places", kernels)},
           std::move(attributes));
  // [N*C, kernel, h, w] -> [N, C*kernel, h*w]
  const std::string apart = s.op("Flatten", {columns}, {{"axis", int64_t{2}}});
  const SizeExpr windows = sizes_of(s.out()).back();
  std::vector<SizeExpr> sizes = {SizeExpr(channels * count), windows};
  if (has_batch) sizes.insert(sizes.begin(), SizeExpr(-1));
  s.give(s.op("Reshape", {apart, s.sizes(sizes)}));
}

void write_col2im(OnnxSteps& s) {
  if (!s.need(18, "Col2Im")) return;
  const Window window = window_of(s);
  const bool has_batch = s.rank() == 3;
  const std::string x = has_batch ? s.x() : s.unsqueeze(s.x(), {0});
  const std::string y =
      s.op("Col2Im", {x, s.ints(s.source.get(attr::kOutputSize)), s.ints(window.kernel)},
           {{"strides", window.strides}, {"pads", window.pads}, {"dilations", window.dilations}});
  s.give(has_batch ? y : s.squeeze(y, {0}));
}

// ---- other sizes and places

struct ResizeRow {
  std::string_view given;
  const char* mode;
  const char* place;     // coordinate_transformation_mode without align_corners
  const char* rounding;  // nearest_mode
  bool is_smooth;        // torch's antialias
};
constexpr ResizeRow kModes[] = {
    {"nearest", "nearest", "asymmetric", "floor", false},
    {"nearest_exact", "nearest", "half_pixel", "round_prefer_ceil", false},
    {"linear", "linear", "half_pixel", "", false},
    {"bilinear", "linear", "half_pixel", "", false},
    {"trilinear", "linear", "half_pixel", "", false},
    {"bicubic", "cubic", "half_pixel", "", false},
    {"bilinear_aa", "linear", "half_pixel", "", true},
    {"bicubic_aa", "cubic", "half_pixel", "", true},
};

// Scale factors, if they do not follow from the shapes; else empty.
std::vector<float> factors_of(const OnnxSteps& s) {
  const std::vector<SizeExpr> in = sizes_of(s.in()), out = sizes_of(s.out());
  const std::vector<double> steps = s.source.get(attr::kScales);
  std::vector<float> factors = {1, 1};
  bool follows = true;  // also without steps, which follow from open sizes
  for (size_t d = 0; d < steps.size(); ++d) {
    factors.push_back(static_cast<float>(1 / steps[d]));
    follows &= in[2 + d].is_number() && out[2 + d].is_number() &&
               steps[d] == static_cast<double>(in[2 + d].number()) /
                               static_cast<double>(out[2 + d].number());
  }
  return follows || s.source.get(attr::kAlignCorners) ? std::vector<float>() : factors;
}

void write_upsample(OnnxSteps& s) {
  const std::string mode = s.source.get(attr::kMode);
  const ResizeRow& row =
      *std::find_if(std::begin(kModes), std::end(kModes) - 1,
                    [&](const ResizeRow& candidate) { return candidate.given == mode; });
  if (row.is_smooth && !s.need(18, "a resize with antialias")) return;
  const bool aligns = s.source.get(attr::kAlignCorners);
  OnnxAttributes attributes = {
      {"mode", std::string(row.mode)},
      {"coordinate_transformation_mode", std::string(aligns ? "align_corners" : row.place)}};
  if (*row.rounding != '\0') attributes.emplace_back("nearest_mode", std::string(row.rounding));
  if (std::string(row.mode) == "cubic") attributes.emplace_back("cubic_coeff_a", -0.75f);
  if (row.is_smooth) attributes.emplace_back("antialias", int64_t{1});
  const std::vector<float> factors = factors_of(s);
  const std::string scales =
      factors.empty() ? "" : s.floats("scales", {std::ssize(factors)}, factors);
  s.give(s.op("Resize", {s.x(), "", scales, factors.empty() ? s.sizes(sizes_of(s.out())) : ""},
              std::move(attributes)));
}

// Samples pixels at the positions of a grid.
void write_grid_sample(OnnxSteps& s) {
  std::string mode = s.source.get(attr::kMode);
  if (s.rank() != 4 && !s.need(20, "grids of volumes")) return;
  if (s.writer.opset() >= 20)
    mode = mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode;
  s.give(s.op("GridSample", {s.x(0), s.x(1)},
              {{"mode", mode},
               {"padding_mode", s.source.get(attr::kPaddingMode)},
               {"align_corners", int64_t{s.source.get(attr::kAlignCorners)}}}));
}

constexpr OnnxRow kWindowRows[] = {
    {"max_pool", write_max_pool},
    {"avg_pool", write_avg_pool},
    {"adaptive_avg_pool", write_adaptive_avg_pool},
    {"im2col", write_im2col},
    {"col2im", write_col2im},
    {"upsample", write_upsample},
    {"grid_sample", write_grid_sample},
};

}  // namespace

std::span<const OnnxRow> window_onnx_rows() { return kWindowRows; }

}  // namespace octet

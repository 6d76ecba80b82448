// Normalizations: softmax, log_softmax, layer_norm, rms_norm, batch_norm, group_norm.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backends/reference/elements.h"

namespace octet::reference {
namespace {

template <typename T>
void softmax(const KernelCall& call) {
  const Reals<T> x = reals_of<T>(call, 0);
  const std::vector<int64_t>& shape = call.input_shape(0);
  const DimSplit split = shape.empty()
                             ? DimSplit{}
                             : split_at(shape, *find_dim(call.op.get(attr::kDim), shape.size()));
  const bool is_masked = call.op.get(attr::kMasked);
  Buffer<double> y(x.size());
  for (int64_t outer = 0; outer < split.outer; ++outer)
    for (int64_t inner = 0; inner < split.inner; ++inner) {
      const int64_t base = outer * split.size * split.inner + inner;
      double greatest = -INFINITY;
      for (int64_t i = 0; i < split.size; ++i)
        greatest = std::max<double>(greatest, x[base + i * split.inner]);
      if (is_masked && greatest == -INFINITY) continue;  // leaves zeros
      double sum = 0;
      for (int64_t i = 0; i < split.size; ++i)
        sum += y[static_cast<size_t>(base + i * split.inner)] =
            std::exp(x[base + i * split.inner] - greatest);
      for (int64_t i = 0; i < split.size; ++i)
        y[static_cast<size_t>(base + i * split.inner)] /= sum;
    }
  store<double>(call, y);
}

// x minus the logarithm of the sum of e^x.
void log_softmax(const KernelCall& call) {
  const DimSplit split = *find_split(call.op, call.input_shape(0));
  Buffer<double> y = elements<double>(call, 0);
  for (int64_t line = 0; line < split.outer * split.inner; ++line) {
    const int64_t base = line / split.inner * split.size * split.inner + line % split.inner;
    const auto at = [&](int64_t i) -> double& {
      return y[static_cast<size_t>(base + i * split.inner)];
    };
    double greatest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < split.size; ++i) greatest = std::max(greatest, at(i));
    for (int64_t i = 0; i < split.size; ++i) sum += std::exp(at(i) - greatest);
    for (int64_t i = 0; i < split.size; ++i) at(i) -= greatest + std::log(sum);
  }
  store<double>(call, y);
}

template <typename T>
void layer_norm(const KernelCall& call) {
  const Reals<T> x = reals_of<T>(call, 0);
  const std::vector<int64_t>& shape = call.input_shape(0);
  const size_t trailing = static_cast<size_t>(call.op.get(attr::kNormalizedDims));
  int64_t width = 1;
  for (size_t d = shape.size() - trailing; d < shape.size(); ++d) width *= shape[d];
  const double eps = call.op.get(attr::kEps);
  const Buffer<double> bias = bias_or_zeros(call, 2, width);
  Buffer<double> weight(static_cast<size_t>(width), 1.0);
  if (call.has_input(1)) weight = bias_or_zeros(call, 1, width);
  Buffer<double> y(x.size());
  for (int64_t row = 0, rows = width == 0 ? 0 : static_cast<int64_t>(x.size()) / width; row < rows;
       ++row) {
    const T* in = x.data() + row * width;
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += in[i];
    const double center = sum / static_cast<double>(width);
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += (in[i] - center) * (in[i] - center);
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (int64_t i = 0; i < width; ++i)
      y[static_cast<size_t>(row * width + i)] =
          (in[i] - center) * inverse * weight[static_cast<size_t>(i)] +
          bias[static_cast<size_t>(i)];
  }
  store<double>(call, y);
}

template <typename T>
void rms_norm(const KernelCall& call) {
  const Reals<T> x = reals_of<T>(call, 0);
  const std::vector<int64_t>& shape = call.input_shape(0);
  const int64_t width = product({shape.end() - call.op.get(attr::kNormalizedDims), shape.end()});
  const double eps = call.op.get(attr::kEps);
  Buffer<double> weight(static_cast<size_t>(width), 1.0);
  if (call.has_input(1)) weight = bias_or_zeros(call, 1, width);
  Buffer<double> y(x.size());
  for (size_t row = 0; row < y.size(); row += weight.size()) {
    double squares = 0;
    for (size_t i = 0; i < weight.size(); ++i) {
      const double v = x[static_cast<int64_t>(row + i)];
      squares += v * v;
    }
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (size_t i = 0; i < weight.size(); ++i)
      y[row + i] = x[static_cast<int64_t>(row + i)] * inverse * weight[i];
  }
  store<double>(call, y);
}

template <typename T>
void batch_norm(const KernelCall& call) {
  const Reals<T> x = reals_of<T>(call, 0);
  const DimSplit split = split_at(call.input_shape(0), 1);
  const Buffer<double> center = bias_or_zeros(call, 1, split.size);
  const Buffer<double> variance = bias_or_zeros(call, 2, split.size);
  const Buffer<double> bias = bias_or_zeros(call, 4, split.size);
  Buffer<double> weight(static_cast<size_t>(split.size), 1.0);
  if (call.has_input(3)) weight = bias_or_zeros(call, 3, split.size);
  const double eps = call.op.get(attr::kEps);
  Buffer<double> y(x.size());
  size_t i = 0;
  for (int64_t outer = 0; outer < split.outer; ++outer)
    for (size_t c = 0; c < static_cast<size_t>(split.size); ++c) {
      const double factor = weight[c] / std::sqrt(variance[c] + eps);
      for (int64_t inner = 0; inner < split.inner; ++inner, ++i)
        y[i] = (x[static_cast<int64_t>(i)] - center[c]) * factor + bias[c];
    }
  store<double>(call, y);
}

// Normalizes each group of channels by its mean and variance.
template <typename T>
void group_norm(const KernelCall& call) {
  const Reals<T> x = reals_of<T>(call, 0);
  const DimSplit split = split_at(call.input_shape(0), 1);
  const int64_t groups = call.op.get(attr::kGroups), size = split.size / groups * split.inner;
  const Buffer<double> bias = bias_or_zeros(call, 2, split.size);
  Buffer<double> weight(static_cast<size_t>(split.size), 1.0);
  if (call.has_input(1)) weight = bias_or_zeros(call, 1, split.size);
  const double eps = call.op.get(attr::kEps);
  Buffer<double> y(x.size());
  for (int64_t group = 0; group < split.outer * groups; ++group) {
    const T* in = x.data() + group * size;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < size; ++i) sum += in[i];
    const double center = sum / static_cast<double>(size);
    for (int64_t i = 0; i < size; ++i) squares += (in[i] - center) * (in[i] - center);
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(size) + eps);
    for (int64_t i = 0; i < size; ++i) {
      const size_t c =
          static_cast<size_t>(group % groups * (split.size / groups) + i / split.inner);
      y[static_cast<size_t>(group * size + i)] = (in[i] - center) * inverse * weight[c] + bias[c];
    }
  }
  store<double>(call, y);
}

// ---- checks

// Checks that inputs from `first` on have `count` elements each.
Verdict check_parameters(const Program& program, const ProgramOp& op, size_t first, int64_t count) {
  for (size_t i = first; i < op.inputs.size(); ++i) {
    const ProgramTensor* parameter = find_input(program, op, i);
    if (parameter != nullptr && parameter->numel() != count)
      return Verdict::refuse(
          fmt::format("input {} has {} elements, want {}", i, parameter->numel(), count));
  }
  return check_same_shape(program, op);
}

Verdict check_softmax(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  if (!x.empty() && !find_dim(op.get(attr::kDim), x.size()))
    return Verdict::refuse(fmt::format("dimension {} is out of range for input {}",
                                       op.get(attr::kDim), shape_text(x)));
  return check_same_shape(program, op);
}

Verdict check_layer_norm(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const int64_t trailing = op.get(attr::kNormalizedDims);
  if (trailing < 1 || trailing > static_cast<int64_t>(x.size()))
    return Verdict::refuse(
        fmt::format("{} normalized dimensions do not fit input {}", trailing, shape_text(x)));
  return check_parameters(program, op, 1, product({x.end() - trailing, x.end()}));
}

Verdict check_batch_norm(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  if (x.size() < 2)
    return Verdict::refuse(fmt::format("input {}, want at least 2 dimensions", shape_text(x)));
  return check_parameters(program, op, 1, x[1]);
}

Verdict check_group_norm(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const int64_t groups = op.get(attr::kGroups);
  if (x.size() < 2 || groups < 1 || x[1] % groups != 0)
    return Verdict::refuse(
        fmt::format("{} groups do not divide the channels of input {}", groups, shape_text(x)));
  return check_parameters(program, op, 1, x[1]);
}

constexpr KernelRow kNormKernels[] = {
    {"softmax", by_precision<softmax<float>, softmax<double>>, check_softmax},
    {"log_softmax", log_softmax, check_softmax},
    {"layer_norm", by_precision<layer_norm<float>, layer_norm<double>>, check_layer_norm},
    {"rms_norm", by_precision<rms_norm<float>, rms_norm<double>>, check_layer_norm},
    {"batch_norm", by_precision<batch_norm<float>, batch_norm<double>>, check_batch_norm},
    {"group_norm", by_precision<group_norm<float>, group_norm<double>>, check_group_norm},
};

}  // namespace

std::span<const KernelRow> norm_kernels() { return kNormKernels; }

}  // namespace octet::reference

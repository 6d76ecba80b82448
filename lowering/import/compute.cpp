// Imports convolutions, matrix products, pools and normalizations.

#include "core/base/error.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

// ---- convolutions

// Applies padding "same": half of the kernel's extent on each side. If that is odd, a separate pad
// op adds the extra element at the end.
int pad_to_same(Steps& s, int x, const std::vector<int64_t>& reach, std::vector<int64_t>& padding) {
  bool is_even = true;
  for (size_t d = 0; d < reach.size(); ++d) {
    padding[d] = reach[d] / 2;
    is_even = is_even && reach[d] % 2 == 0;
  }
  if (is_even) return x;
  Sizes shape = s.sizes(x);
  const size_t lead = shape.size() - reach.size();
  std::vector<int64_t> pads(2 * shape.size(), 0);
  for (size_t d = 0; d < reach.size(); ++d) {
    padding[d] = 0;
    pads[2 * (lead + d)] = reach[d] / 2;
    pads[2 * (lead + d) + 1] = reach[d] - reach[d] / 2;
    shape[lead + d] = shape[lead + d] + reach[d];
  }
  const DType dtype = s.tensor(x).dtype;
  return s.op("pad", {x}, shape, dtype, {{attr::kPads, pads}, {attr::kValue, 0.0}});
}

// Adds a batch dimension of size 1 for the op if the input has none, and removes it from the
// output.
void emit_batched(Steps& s, const std::string& kind, std::vector<int> inputs, size_t batched_rank,
                  Attributes attributes) {
  const DType dtype = s.tensor(inputs[0]).dtype;
  Sizes in_shape = s.sizes(inputs[0]);
  if (in_shape.size() == batched_rank) {
    s.emit(kind, std::move(inputs), std::move(attributes));
    return;
  }
  in_shape.insert(in_shape.begin(), 1);
  Sizes out_shape = s.result_sizes();
  out_shape.insert(out_shape.begin(), 1);
  inputs[0] = s.op("reshape", {inputs[0]}, in_shape, dtype);
  const int y = s.op(kind, std::move(inputs), out_shape, dtype, std::move(attributes));
  s.emit("reshape", {y});
}

void import_conv(Steps& s, const Node& node) {
  int x = s.input("input");
  const int w = s.input("weight");
  const std::vector<int64_t> w_shape = s.tensor(w).shape;
  const size_t spatial = w_shape.size() - 2;
  const std::vector<int64_t> dilation = repeated(node.ints_or("dilation", {1}), spatial);
  std::vector<int64_t> padding(spatial, 0);
  const Argument* given = node.find_argument("padding");
  if (const std::string* word = given == nullptr ? nullptr : given->find<std::string>()) {
    std::vector<int64_t> reach;
    for (size_t d = 0; d < spatial; ++d) reach.push_back(dilation[d] * (w_shape[2 + d] - 1));
    if (*word == "same") x = pad_to_same(s, x, reach, padding);
  } else {
    padding = repeated(node.ints_or("padding", {0}), spatial);
  }
  emit_batched(s, "conv", {x, w, s.input("bias")}, spatial + 2,
               {{attr::kStride, repeated(node.ints_or("stride", {1}), spatial)},
                {attr::kPadding, padding},
                {attr::kDilation, dilation},
                {attr::kGroups, node.int_or("groups", 1)}});
}

void import_conv_transpose(Steps& s, const Node& node) {
  const int w = s.input("weight");
  const size_t spatial = s.tensor(w).shape.size() - 2;
  const auto sizes = [&](const char* name, int64_t fallback) {
    return repeated(node.ints_or(name, {fallback}), spatial);
  };
  emit_batched(s, "conv_transpose", {s.input("input"), w, s.input("bias")}, spatial + 2,
               {{attr::kStride, sizes("stride", 1)},
                {attr::kPadding, sizes("padding", 0)},
                {attr::kOutputPadding, sizes("output_padding", 0)},
                {attr::kDilation, sizes("dilation", 1)},
                {attr::kGroups, node.int_or("groups", 1)}});
}

// aten.convolution covers both kinds.
void import_convolution(Steps& s, const Node& node) {
  node.bool_or("transposed", false) ? import_conv_transpose(s, node) : import_conv(s, node);
}

// ---- matrix products

// Reshapes vectors to matrices for the op, and the result back.
void emit_matmul(Steps& s, int a, int b) {
  Sizes sa = s.sizes(a), sb = s.sizes(b), out = s.result_sizes();
  const DType dtype = s.tensor(a).dtype;
  const bool is_row = sa.size() == 1, is_column = sb.size() == 1;
  if (is_row) {
    sa.insert(sa.begin(), 1);
    a = s.op("reshape", {a}, sa, dtype);
    out.insert(out.end() - (is_column ? 0 : 1), 1);
  }
  if (is_column) {
    sb.push_back(1);
    b = s.op("reshape", {b}, sb, dtype);
    out.push_back(1);
  }
  if (!is_row && !is_column) {
    s.emit("matmul", {a, b});
    return;
  }
  const int y = s.op("matmul", {a, b}, out, dtype);
  s.emit("reshape", {y});
}

// A 1-dimensional weight gives one number for each row of the input.
void import_linear(Steps& s, const Node&) {
  const int input = s.input("input"), weight = s.input("weight"), bias = s.input("bias");
  if (s.tensor(weight).shape.size() > 1) {
    s.emit("linear", {input, weight, bias});
    return;
  }
  if (bias < 0) return emit_matmul(s, input, weight);
  s.refuse("of a weight with one dimension and a bias");
}

void import_matmul(Steps& s, const Node& node) {
  const char* second = node.find_argument("mat2") != nullptr ? "mat2" : "other";
  emit_matmul(s, s.input("self"), s.input(second));
}

// beta * self + alpha * (mat1 @ mat2)
void import_addmm(Steps& s, const Node& node) {
  if (node.float_or("beta", 1) != 1 || node.float_or("alpha", 1) != 1)
    return import_scaled_addmm(s, node);
  const Sizes shape = s.result_sizes();
  const int a = s.input("mat1"), b = s.input("mat2");
  const DType given = s.tensor(a).dtype;
  const bool is_half = is_floating_point(given) && size_of(given) < 4;
  const int product = s.op("matmul", {a, b}, shape, is_half ? DType::kFloat32 : given);
  s.emit("add", {product, s.input("self")});
}

// ---- pools

void emit_pool(Steps& s, const Node& node, const std::string& kind, size_t spatial,
               Attributes attributes) {
  const std::vector<int64_t> kernel = repeated(node.ints_or("kernel_size", {}), spatial);
  std::vector<int64_t> stride = repeated(node.ints_or("stride", {}), spatial);
  if (stride.empty()) stride = kernel;
  attributes[attr::kKernelSize] = kernel;
  attributes[attr::kStride] = stride;
  attributes[attr::kPadding] = repeated(node.ints_or("padding", {0}), spatial);
  attributes[attr::kCeilMode] = node.bool_or("ceil_mode", false);
  const char* name = node.find_argument("self") != nullptr ? "self" : "input";
  emit_batched(s, kind, {s.input(name)}, spatial + 2, std::move(attributes));
}

size_t spatial_dims(const Node& node) {
  return static_cast<size_t>(node.target()[node.target().find("d.") - 1] - '0');
}

void import_max_pool(Steps& s, const Node& node) {
  const size_t spatial = spatial_dims(node);
  emit_pool(s, node, "max_pool", spatial,
            {{attr::kDilation, repeated(node.ints_or("dilation", {1}), spatial)}});
}

void import_max_pool_with_indices(Steps& s, const Node& node) {
  if (!node.outputs().back()->is_unused()) return import_pool_with_indices(s, node);
  emit_pool(s, node, "max_pool", 2,
            {{attr::kDilation, repeated(node.ints_or("dilation", {1}), 2)}});
}

// Imports it as a pool with windows of one size if the output size divides the input size.
void import_adaptive_max_pool(Steps& s, const Node& node) {
  if (node.outputs().size() > 1 && !node.outputs().back()->is_unused())
    return import_pool_with_indices(s, node);
  const size_t spatial = spatial_dims(node);
  const Sizes in = s.sizes(s.input("self")), out = s.result_sizes();
  std::vector<int64_t> kernel;
  for (size_t d = in.size() - spatial; d < in.size(); ++d) {
    const bool is_known = in[d].is_number() && out[d].is_number() && out[d].number() > 0;
    if (!is_known || in[d].number() % out[d].number() != 0)
      return import_pool_with_indices(s, node);
    kernel.push_back(in[d].number() / out[d].number());
  }
  const std::vector<int64_t> ones(spatial, 1), zeros(spatial, 0);
  emit_batched(s, "max_pool", {s.input("self")}, spatial + 2,
               {{attr::kKernelSize, kernel},
                {attr::kStride, kernel},
                {attr::kPadding, zeros},
                {attr::kDilation, ones},
                {attr::kCeilMode, false}});
}

void import_avg_pool(Steps& s, const Node& node) {
  emit_pool(s, node, "avg_pool", spatial_dims(node),
            {{attr::kCountIncludePad, node.bool_or("count_include_pad", true)},
             {attr::kDivisorOverride, node.int_or("divisor_override", 0)}});
}

void import_adaptive_avg_pool(Steps& s, const Node& node) {
  const size_t spatial = spatial_dims(node);
  const Sizes out = s.result_sizes();
  const Sizes tail(out.end() - static_cast<int64_t>(spatial), out.end());
  if (is_symbolic(tail)) return s.refuse("to sizes that are not fixed");
  emit_batched(s, "adaptive_avg_pool", {s.input("self")}, spatial + 2,
               {{attr::kOutputSize, evaluate(tail, {})}});
}

void import_mean(Steps& s, const Node& node) {
  std::vector<int64_t> dims = node.ints_or("dim", {});
  const size_t rank = s.input_shape("self").size();
  for (int64_t& dim : dims) dim = positive_dim(dim, rank);
  if (dims.empty())
    for (size_t d = 0; d < rank; ++d) dims.push_back(static_cast<int64_t>(d));
  s.emit("mean", {s.input("self")},
         {{attr::kDims, dims}, {attr::kKeepdim, node.bool_or("keepdim", false)}});
}

// ---- normalizations

void import_softmax(Steps& s, const Node& node) {
  const std::vector<int64_t> shape = s.input_shape("self");
  s.emit("softmax", {s.input("self")},
         {{attr::kDim, positive_dim(node.int_or("dim", -1), shape.size())}});
}

void import_layer_norm(Steps& s, const Node& node) {
  const int64_t dims = static_cast<int64_t>(node.ints_or("normalized_shape", {}).size());
  import_norm_statistics(s, node, s.input("input"), dims);
  s.emit("layer_norm", {s.input("input"), s.input("weight"), s.input("bias")},
         {{attr::kNormalizedDims, dims}, {attr::kEps, node.float_or("eps", 1e-5)}});
}

void import_batch_norm(Steps& s, const Node& node) {
  if (node.bool_or("training", false)) return import_own_statistics(s, node);
  for (size_t i = 1; i < node.outputs().size(); ++i)
    if (!node.outputs()[i]->is_unused()) return s.refuse("whose statistics are used");
  const int mean = s.input("running_mean"), var = s.input("running_var");
  if (mean < 0 || var < 0) return s.refuse("without running statistics");
  s.emit("batch_norm", {s.input("input"), mean, var, s.input("weight"), s.input("bias")},
         {{attr::kEps, node.float_or("eps", 1e-5)}});
}

constexpr ImportRow kComputeRows[] = {
    {"aten.conv1d", import_conv},
    {"aten.conv2d", import_conv},
    {"aten.conv3d", import_conv},
    {"aten.convolution", import_convolution},
    {"aten.conv_transpose1d", import_conv_transpose},
    {"aten.conv_transpose2d", import_conv_transpose},
    {"aten.conv_transpose3d", import_conv_transpose},
    {"aten.linear", import_linear},
    {"aten.matmul", import_matmul},
    {"aten.mm", import_matmul},
    {"aten.bmm", import_matmul},
    {"aten.addmm", import_addmm},
    {"aten.max_pool1d", import_max_pool},
    {"aten.max_pool2d", import_max_pool},
    {"aten.max_pool3d", import_max_pool},
    {"aten.max_pool2d_with_indices", import_max_pool_with_indices},
    {"aten.adaptive_max_pool1d", import_adaptive_max_pool},
    {"aten.adaptive_max_pool2d", import_adaptive_max_pool},
    {"aten.adaptive_max_pool3d", import_adaptive_max_pool},
    {"aten.avg_pool1d", import_avg_pool},
    {"aten.avg_pool2d", import_avg_pool},
    {"aten.avg_pool3d", import_avg_pool},
    {"aten.adaptive_avg_pool1d", import_adaptive_avg_pool},
    {"aten.adaptive_avg_pool2d", import_adaptive_avg_pool},
    {"aten._adaptive_avg_pool2d", import_adaptive_avg_pool},
    {"aten.adaptive_avg_pool3d", import_adaptive_avg_pool},
    {"aten._adaptive_avg_pool3d", import_adaptive_avg_pool},
    {"aten.mean", import_mean},
    {"aten.softmax", import_softmax},
    {"aten._softmax", import_softmax},
    {"aten.layer_norm", import_layer_norm},
    {"aten.native_layer_norm", import_layer_norm},
    {"aten.batch_norm", import_batch_norm},
    {"aten._native_batch_norm_legit_no_training", import_batch_norm},
    {"aten._native_batch_norm_legit", import_batch_norm},
    {"aten._native_batch_norm_legit_functional", import_batch_norm},
    {"aten.native_batch_norm", import_batch_norm},
};

}  // namespace

std::span<const ImportRow> compute_import_rows() { return kComputeRows; }

}  // namespace octet

// Convolutions, linear layers and matrix products.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "core/base/shape.h"
#include "lowering/program/quantized_constants.h"
#include "tools/onnx/dynamic.h"
#include "tools/onnx/quantized.h"

namespace octet {
namespace {

// ---- bias

// A constant bias of a product of integers as runtimes want it: i32 with the product of the two
// scales. Nothing when there are no such scales, or a number would not fit.
std::optional<std::string> integer_bias(OnnxSteps& s, const Value* x, const Value* w,
                                        const Value* bias) {
  const Tensor* given = s.exporter.graph().find_constant(bias);
  const std::optional<OnnxQParams> left = find_activation_qparams(x);
  const std::optional<StoredWeight> right = find_stored_weight(w);
  if (given == nullptr || given->dtype() != DType::kFloat32 || !left || !right ||
      right->qparams.is_blocked())
    return std::nullopt;
  const std::vector<float>& scales = right->qparams.scale;
  const size_t count = static_cast<size_t>(given->numel());
  if (scales.size() != 1 && scales.size() != count) return std::nullopt;
  OnnxQParams qparams;
  qparams.dtype = DType::kInt32;
  qparams.shape = {given->numel()};
  const Tensor values = given->contiguous();
  std::vector<int32_t> integers;
  for (size_t i = 0; i < count; ++i) {
    const float scale = left->scale[0] * scales[scales.size() == 1 ? 0 : i];
    const double value = std::nearbyint(values.data<float>()[i] / static_cast<double>(scale));
    if (!(std::abs(value) < 2147483648.0)) return std::nullopt;
    qparams.scale.push_back(scale);
    integers.push_back(static_cast<int32_t>(value));
  }
  qparams.zero_point.assign(count, 0);
  const std::string name =
      s.exporter.add_initializer(s.exporter.graph().find_input(bias)->fqn,
                                 Tensor::from<int32_t>(DType::kInt32, {given->numel()}, integers));
  return dequantized(s, name, qparams);
}

// ONNX Runtime takes a linear layer of integers with such a bias alone.
std::string bias_of(OnnxSteps& s, const Value* x, const Value* w, bool is_integer = true) {
  Value* bias = s.value({"bias"});
  if (bias == nullptr) return "";
  const std::optional<std::string> integer =
      is_integer ? integer_bias(s, x, w, bias) : std::nullopt;
  return integer ? *integer : s.exporter.name_of(bias);
}

// ---- convolutions

// All beginnings, then all ends.
std::vector<int64_t> conv_pads(const OnnxSteps& s, const std::vector<int64_t>& kernel,
                               const std::vector<int64_t>& dilations) {
  std::vector<int64_t> begins, ends;
  if (s.text("padding") == "same") {
    for (size_t d = 0; d < kernel.size(); ++d) {
      const int64_t total = dilations[d] * (kernel[d] - 1);
      begins.push_back(total / 2);
      ends.push_back(total - total / 2);
    }
  } else {
    const std::vector<int64_t> zeros = {0};
    begins = s.text("padding") == "valid" ? zeros : s.node.ints_or("padding", zeros);
    begins = ends = as_many(begins, kernel.size());
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  return begins;
}

void convert_conv(OnnxSteps& s) {
  Value* x = s.self();
  Value* w = s.value({"weight"});
  const std::optional<std::vector<int64_t>> shape = s.fixed_shape(w);
  if (!shape) return;
  const std::vector<int64_t> kernel(shape->begin() + 2, shape->end());
  const size_t spatial = kernel.size();
  const bool is_transposed =
      s.node.bool_or("transposed", false) || s.node.is("aten.conv_transpose1d") ||
      s.node.is("aten.conv_transpose2d") || s.node.is("aten.conv_transpose3d");
  const std::vector<int64_t> dilations = as_many(s.node.ints_or("dilation", {1}), spatial);
  OnnxAttributes attributes = {{"kernel_shape", kernel},
                               {"strides", as_many(s.node.ints_or("stride", {1}), spatial)},
                               {"pads", conv_pads(s, kernel, dilations)},
                               {"dilations", dilations},
                               {"group", s.node.int_or("groups", 1)}};
  if (is_transposed)
    attributes.emplace_back("output_padding",
                            as_many(s.node.ints_or("output_padding", {0}), spatial));
  const bool has_batch = s.rank(x) == shape->size();
  const std::string image =
      has_batch ? s.exporter.name_of(x) : s.unsqueeze(s.exporter.name_of(x), {0});
  const std::string bias = bias_of(s, x, w, s.exporter.has_integer_biases());
  const std::string y = s.op(is_transposed ? "ConvTranspose" : "Conv",
                             {image, s.exporter.name_of(w), bias}, std::move(attributes));
  s.give(has_batch ? y : s.squeeze(y, {0}));
}

// ---- linear

// [out, in] as [in, out]. What only this node reads is stored that way.
std::string transposed_weight(OnnxSteps& s, Value* w) {
  if (const std::optional<StoredWeight> stored = find_stored_weight(w)) {
    const Value* integers = w->producer()->find_input("input");
    return dequantized(s, s.exporter.graph().find_input(integers)->fqn, transposed(*stored));
  }
  const Tensor* constant = s.exporter.graph().find_constant(w);
  if (constant == nullptr || !w->has_one_user() || constant->dtype() != DType::kFloat32)
    return s.transpose(s.exporter.name_of(w), {1, 0});
  return s.exporter.add_initializer(s.exporter.graph().find_input(w)->fqn,
                                    permute_constant(constant->contiguous(), {1, 0}));
}

void convert_linear(OnnxSteps& s) {
  Value* x = s.self();
  Value* w = s.value({"weight"});
  if (give_integer_linear(s, x, w)) return;
  const std::optional<StoredWeight> stored = find_stored_weight(w);
  const bool is_blocked = stored && stored->qparams.is_blocked();
  if (s.rank(x) == 2 && s.rank(w) == 2 && !is_blocked) {
    const std::string bias = bias_of(s, x, w);
    return s.give(s.op("Gemm", {s.exporter.name_of(x), s.exporter.name_of(w), bias},
                       {{"transB", int64_t{1}}}));
  }
  if (s.rank(w) != 2) return s.refuse("with a weight that has not 2 dimensions");
  if (is_blocked && !s.exporter.need(s.node, 21, "scales of blocks")) return;
  std::string y = s.op("MatMul", {s.exporter.name_of(x), transposed_weight(s, w)});
  if (s.has("bias")) y = s.add(y, bias_of(s, x, w));
  s.give(y);
}

// ---- products

void convert_matmul(OnnxSteps& s) {
  const std::string b = s.input({"other", "mat2", "vec", "tensor"});
  s.give(s.op("MatMul", {s.x(), b}));
}

// beta * self + alpha * a @ b
void convert_addmm(OnnxSteps& s) {
  s.give(s.op("Gemm", {s.input("mat1"), s.input("mat2"), s.input("self")},
              {{"alpha", static_cast<float>(s.node.float_or("alpha", 1))},
               {"beta", static_cast<float>(s.node.float_or("beta", 1))}}));
}
void convert_baddbmm(OnnxSteps& s) {
  const double alpha = s.node.float_or("alpha", 1), beta = s.node.float_or("beta", 1);
  std::string y = s.op("MatMul", {s.input("batch1"), s.input("batch2")});
  if (alpha != 1) y = s.mul(y, s.number(alpha));
  const std::string added = s.input("self");
  s.give(beta == 0 ? y : s.add(y, beta == 1 ? added : s.mul(added, s.number(beta))));
}
void convert_outer(OnnxSteps& s) {
  s.give(s.mul(s.unsqueeze(s.x(), {1}), s.unsqueeze(s.input({"vec2", "other"}), {0})));
}

void convert_einsum(OnnxSteps& s) {
  Names operands;
  for (Value* value : s.list("tensors")) operands.push_back(s.exporter.name_of(value));
  s.give(s.op("Einsum", operands, {{"equation", s.text("equation")}}));
}

constexpr OnnxRow kProductRows[] = {
    {"aten.conv1d", convert_conv},
    {"aten.conv2d", convert_conv},
    {"aten.conv3d", convert_conv},
    {"aten.convolution", convert_conv},
    {"aten.conv_transpose1d", convert_conv},
    {"aten.conv_transpose2d", convert_conv},
    {"aten.conv_transpose3d", convert_conv},
    {"aten.linear", convert_linear},
    {"aten.matmul", convert_matmul},
    {"aten.mm", convert_matmul},
    {"aten.bmm", convert_matmul},
    {"aten.mv", convert_matmul},
    {"aten.dot", convert_matmul},
    {"aten.addmm", convert_addmm},
    {"aten.baddbmm", convert_baddbmm},
    {"aten.outer", convert_outer},
    {"aten.einsum", convert_einsum},
};

}  // namespace

std::span<const OnnxRow> product_onnx_rows() { return kProductRows; }

}  // namespace octet

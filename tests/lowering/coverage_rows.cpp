// The rows, and the graphs that they give.
#include "tests/lowering/coverage_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace octet {
namespace {

constexpr Operand kX = Operand::kActivation, kW = Operand::kWeights, kW1 = Operand::kWeights1,
                  kP = Operand::kParameter, kI = Operand::kIndices;

CoverageRow one(const char* item, const char* shape, const char* call, const char* result) {
  return {item, {{"x", kX, shape}}, call, result};
}

CoverageRow same(const char* item, const char* call) {
  return one(item, "2,6,5,7", call, "%y: f32[2,6,5,7]");
}

// clang-format off
const std::vector<CoverageRow> kRows = {
    {"conv 1d", {{"x", kX, "2,6,9"}, {"w", kW, "8,6,3"}, {"b", kP, "8"}}, "aten.conv1d.default(%x, %w, %b, [1], [1])", "%y: f32[2,8,9]"},
    {"conv 2d", {{"x", kX, "2,6,9,9"}, {"w", kW, "8,6,3,3"}, {"b", kP, "8"}}, "aten.conv2d.default(%x, %w, %b, [2, 2], [1, 1])", "%y: f32[2,8,5,5]"},
    {"conv 3d", {{"x", kX, "2,6,5,5,5"}, {"w", kW, "8,6,3,3,3"}, {"b", kP, "8"}}, "aten.conv3d.default(%x, %w, %b, [1, 1, 1], [1, 1, 1])", "%y: f32[2,8,5,5,5]"},
    {"conv 3d, without padding", {{"x", kX, "2,6,5,5,5"}, {"w", kW, "8,6,3,3,3"}}, "aten.conv3d.default(%x, %w)", "%y: f32[2,8,3,3,3]"},
    {"conv 3d, grouped", {{"x", kX, "1,8,5,5,5"}, {"w", kW, "8,4,3,3,3"}}, "aten.conv3d.default(%x, %w, None, [1, 1, 1], [1, 1, 1], [1, 1, 1], 2)", "%y: f32[1,8,5,5,5]"},
    {"conv 3d, depthwise", {{"x", kX, "1,8,5,5,5"}, {"w", kW, "8,1,3,3,3"}}, "aten.conv3d.default(%x, %w, None, [1, 1, 1], [1, 1, 1], [1, 1, 1], 8)", "%y: f32[1,8,5,5,5]"},
    {"conv 2d, grouped", {{"x", kX, "2,8,9,9"}, {"w", kW, "12,4,3,3"}}, "aten.conv2d.default(%x, %w, None, [1, 1], [1, 1], [1, 1], 2)", "%y: f32[2,12,9,9]"},
    {"conv 2d, depthwise", {{"x", kX, "2,8,9,9"}, {"w", kW, "8,1,3,3"}}, "aten.conv2d.default(%x, %w, None, [1, 1], [1, 1], [1, 1], 8)", "%y: f32[2,8,9,9]"},
    {"conv 2d, dilated", {{"x", kX, "2,8,9,9"}, {"w", kW, "12,8,3,3"}}, "aten.conv2d.default(%x, %w, None, [1, 1], [2, 2], [2, 2])", "%y: f32[2,12,9,9]"},
    {"conv 2d, dilated and depthwise", {{"x", kX, "2,8,9,9"}, {"w", kW, "8,1,3,3"}}, "aten.conv2d.default(%x, %w, None, [1, 1], [2, 2], [2, 2], 8)", "%y: f32[2,8,9,9]"},
    {"conv 1d, transposed", {{"x", kX, "2,6,9"}, {"w", kW1, "6,8,3"}}, "aten.conv_transpose1d.default(%x, %w, None, [2], [1], [1])", "%y: f32[2,8,18]"},
    {"conv 2d, transposed", {{"x", kX, "2,6,5,5"}, {"w", kW1, "6,8,3,3"}, {"b", kP, "8"}}, "aten.conv_transpose2d.input(%x, %w, %b, [2, 2], [1, 1], [1, 1])", "%y: f32[2,8,10,10]"},
    {"conv 2d, transposed and grouped", {{"x", kX, "2,8,5,5"}, {"w", kW1, "8,3,3,3"}}, "aten.conv_transpose2d.input(%x, %w, None, [2, 2], [1, 1], [1, 1], 2)", "%y: f32[2,6,10,10]"},
    {"conv 2d, transposed and depthwise", {{"x", kX, "2,8,5,5"}, {"w", kW1, "8,1,3,3"}}, "aten.conv_transpose2d.input(%x, %w, None, [2, 2], [1, 1], [1, 1], 8)", "%y: f32[2,8,10,10]"},
    {"conv 2d, transposed and dilated", {{"x", kX, "2,6,5,5"}, {"w", kW1, "6,8,3,3"}}, "aten.conv_transpose2d.input(%x, %w, None, [1, 1], [1, 1], [0, 0], 1, [2, 2])", "%y: f32[2,8,7,7]"},
    {"conv 3d, transposed", {{"x", kX, "1,6,3,4,4"}, {"w", kW1, "6,8,2,2,2"}}, "aten.conv_transpose3d.input(%x, %w, None, [2, 2, 2])", "%y: f32[1,8,6,8,8]"},
    {"linear", {{"x", kX, "3,5,64"}, {"w", kW, "24,64"}, {"b", kP, "24"}}, "aten.linear.default(%x, %w, %b)", "%y: f32[3,5,24]"},
    {"linear, few rows", {{"x", kX, "2,64"}, {"w", kW, "24,64"}, {"b", kP, "24"}}, "aten.linear.default(%x, %w, %b)", "%y: f32[2,24]"},
    {"matmul of two activations", {{"x", kX, "2,3,7,16"}, {"z", kX, "2,3,16,9"}}, "aten.matmul.default(%x, %z)", "%y: f32[2,3,7,9]"},
    {"matmul, broadcast", {{"x", kX, "2,3,7,16"}, {"z", kX, "16,9"}}, "aten.matmul.default(%x, %z)", "%y: f32[2,3,7,9]"},
    {"bmm", {{"x", kX, "3,7,16"}, {"z", kX, "3,16,9"}}, "aten.bmm.default(%x, %z)", "%y: f32[3,7,9]"},
    {"mm", {{"x", kX, "7,16"}, {"z", kX, "16,9"}}, "aten.mm.default(%x, %z)", "%y: f32[7,9]"},
    {"add", {{"x", kX, "2,6,5,7"}, {"z", kX, "2,6,5,7"}}, "aten.add.Tensor(%x, %z)", "%y: f32[2,6,5,7]"},
    {"add, broadcast", {{"x", kX, "2,6,5,7"}, {"z", kX, "6,1,1"}}, "aten.add.Tensor(%x, %z)", "%y: f32[2,6,5,7]"},
    {"sub, broadcast", {{"x", kX, "2,6,5,7"}, {"z", kX, "7"}}, "aten.sub.Tensor(%x, %z)", "%y: f32[2,6,5,7]"},
    {"mul, broadcast", {{"x", kX, "2,6,5,7"}, {"z", kX, "2,6,1,1"}}, "aten.mul.Tensor(%x, %z)", "%y: f32[2,6,5,7]"},
    {"mul, both broadcast", {{"x", kX, "2,6,1,7"}, {"z", kX, "6,5,1"}}, "aten.mul.Tensor(%x, %z)", "%y: f32[2,6,5,7]"},
    {"div", {{"x", kX, "2,6,5,7"}}, "aten.div.Tensor(%x, 1.7)", "%y: f32[2,6,5,7]"},
    {"minimum, maximum", {{"x", kX, "2,6,5,7"}, {"z", kX, "5,7"}}, "aten.maximum.default(%x, %z)", "%y: f32[2,6,5,7]"},
    same("relu", "aten.relu.default(%x)"), same("relu6", "aten.relu6.default(%x)"), same("hardtanh", "aten.hardtanh.default(%x, -0.5, 0.7)"),
    same("hardswish", "aten.hardswish.default(%x)"), same("hardsigmoid", "aten.hardsigmoid.default(%x)"), same("silu", "aten.silu.default(%x)"),
    same("gelu", "aten.gelu.default(%x)"), same("gelu, tanh", "aten.gelu.default(%x, approximate=\"tanh\")"),
    same("leaky_relu", "aten.leaky_relu.default(%x, 0.2)"), same("sigmoid", "aten.sigmoid.default(%x)"), same("tanh", "aten.tanh.default(%x)"),
    same("elu", "aten.elu.default(%x)"), same("softmax", "aten.softmax.int(%x, -1)"), same("softmax over channels", "aten.softmax.int(%x, 1)"),
    {"prelu", {{"x", kX, "2,6,5,7"}, {"p", kP, "6"}}, "aten.prelu.default(%x, %p)", "%y: f32[2,6,5,7]"},
    {"layer_norm", {{"x", kX, "3,5,24"}, {"g", kP, "24"}, {"b", kP, "24"}}, "aten.layer_norm.default(%x, [24], %g, %b)", "%y: f32[3,5,24]"},
    {"rms_norm", {{"x", kX, "3,5,24"}, {"g", kP, "24"}}, "aten.rms_norm.default(%x, [24], %g, 1e-5)", "%y: f32[3,5,24]"},
    {"group_norm", {{"x", kX, "2,6,5,7"}, {"g", kP, "6"}, {"b", kP, "6"}}, "aten.group_norm.default(%x, 3, %g, %b)", "%y: f32[2,6,5,7]"},
    {"instance_norm", {{"x", kX, "2,6,5,7"}}, "aten.instance_norm.default(%x, None, None, None, None, True, 0.1, 1e-5, False)", "%y: f32[2,6,5,7]"},
    {"batch_norm", {{"x", kX, "2,6,5,7"}, {"g", kP, "6"}, {"b", kP, "6"}, {"m", kP, "6"}, {"scale", kP, "6"}}, "aten.batch_norm.default(%x, %g, %b, %m, %scale, False, 0.1, 1e-5, False)", "%y: f32[2,6,5,7]"},
    one("max_pool 1d", "2,6,9", "aten.max_pool1d.default(%x, [3], [2], [1])", "%y: f32[2,6,5]"),
    one("max_pool 2d", "2,6,9,9", "aten.max_pool2d.default(%x, [3, 3], [2, 2], [1, 1])", "%y: f32[2,6,5,5]"),
    one("max_pool 3d", "2,6,4,6,6", "aten.max_pool3d.default(%x, [2, 2, 2])", "%y: f32[2,6,2,3,3]"),
    one("avg_pool 1d", "2,6,9", "aten.avg_pool1d.default(%x, [3], [2], [1])", "%y: f32[2,6,5]"),
    one("avg_pool 2d", "2,6,9,9", "aten.avg_pool2d.default(%x, [3, 3], [2, 2], [1, 1])", "%y: f32[2,6,5,5]"),
    one("avg_pool 3d", "2,6,4,6,6", "aten.avg_pool3d.default(%x, [2, 2, 2])", "%y: f32[2,6,2,3,3]"),
    one("adaptive_avg_pool 1d", "2,6,9", "aten.adaptive_avg_pool1d.default(%x, [4])", "%y: f32[2,6,4]"),
    one("adaptive_avg_pool 2d", "2,6,9,7", "aten.adaptive_avg_pool2d.default(%x, [4, 3])", "%y: f32[2,6,4,3]"),
    one("adaptive_avg_pool 3d", "2,6,4,6,6", "aten.adaptive_avg_pool3d.default(%x, [1, 1, 1])", "%y: f32[2,6,1,1,1]"),
    one("adaptive_max_pool 2d, even", "2,6,8,6", "aten.adaptive_max_pool2d.default(%x, [4, 3])", "%y: f32[2,6,4,3], %at: i64[2,6,4,3]"),
    one("mean over space", "2,6,5,7", "aten.mean.dim(%x, [2, 3])", "%y: f32[2,6]"),
    one("mean over the last dimension", "2,6,35", "aten.mean.dim(%x, [-1], True)", "%y: f32[2,6,1]"),
    one("sum", "2,6,5,7", "aten.sum.dim_IntList(%x, [1])", "%y: f32[2,5,7]"),
    one("amax", "2,6,5,7", "aten.amax.default(%x, [2, 3])", "%y: f32[2,6]"),
    one("amin", "2,6,5,7", "aten.amin.default(%x, [0, 2])", "%y: f32[6,7]"),
    {"cat", {{"x", kX, "2,6,5,7"}, {"z", kX, "2,3,5,7"}}, "aten.cat.default([%x, %z], 1)", "%y: f32[2,9,5,7]"},
    {"stack", {{"x", kX, "2,6,5"}, {"z", kX, "2,6,5"}}, "aten.stack.default([%x, %z], 1)", "%y: f32[2,2,6,5]"},
    one("slice", "2,9,5,7", "aten.slice.Tensor(%x, 1, 1, 8, 2)", "%y: f32[2,4,5,7]"),
    one("permute", "2,6,5,7", "aten.permute.default(%x, [0, 2, 3, 1])", "%y: f32[2,5,7,6]"),
    one("reshape", "2,6,5,7", "aten.reshape.default(%x, [2, 210])", "%y: f32[2,210]"),
    one("expand", "2,6,1,7", "aten.expand.default(%x, [2, 6, 5, 7])", "%y: f32[2,6,5,7]"),
    one("pad", "2,6,5,7", "aten.constant_pad_nd.default(%x, [1, 2, 0, 1])", "%y: f32[2,6,6,10]"),
    one("pad with another value", "2,6,5,7", "aten.constant_pad_nd.default(%x, [1, 2, 0, 1], 0.5)", "%y: f32[2,6,6,10]"),
    one("pixel_shuffle", "2,8,5,7", "aten.pixel_shuffle.default(%x, 2)", "%y: f32[2,2,10,14]"),
    one("upsample, nearest 1d", "2,6,5", "aten.upsample_nearest1d.vec(%x, [10], None)", "%y: f32[2,6,10]"),
    one("upsample, nearest", "2,6,5,7", "aten.upsample_nearest2d.vec(%x, [10, 14], None)", "%y: f32[2,6,10,14]"),
    one("upsample, bilinear", "2,6,5,7", "aten.upsample_bilinear2d.vec(%x, [9, 11], False, None)", "%y: f32[2,6,9,11]"),
    one("upsample, bilinear, corners", "2,6,5,7", "aten.upsample_bilinear2d.vec(%x, [9, 13], True, None)", "%y: f32[2,6,9,13]"),
    {"embedding", {{"i", kI, "3,5"}, {"w", kW, "10,16"}}, "aten.embedding.default(%w, %i)", "%y: f32[3,5,16]"},
    {"scaled_dot_product_attention", {{"q", kX, "2,3,9,16"}, {"k", kX, "2,3,7,16"}, {"v", kX, "2,3,7,8"}}, "aten.scaled_dot_product_attention.default(%q, %k, %v)", "%y: f32[2,3,9,8]"},
    {"attention, causal", {{"q", kX, "2,3,9,16"}, {"k", kX, "2,3,9,16"}, {"v", kX, "2,3,9,8"}}, "aten.scaled_dot_product_attention.default(%q, %k, %v, None, 0.0, True)", "%y: f32[2,3,9,8]"},
    {"attention, mask", {{"q", kX, "2,3,9,16"}, {"k", kX, "2,3,7,16"}, {"v", kX, "2,3,7,8"}, {"m", kP, "9,7"}}, "aten.scaled_dot_product_attention.default(%q, %k, %v, %m)", "%y: f32[2,3,9,8]"},
    {"attention, grouped heads", {{"q", kX, "2,4,9,16"}, {"k", kX, "2,2,7,16"}, {"v", kX, "2,2,7,8"}}, "aten.scaled_dot_product_attention.default(%q, %k, %v, None, 0.0, False, scale=None, enable_gqa=True)", "%y: f32[2,4,9,8]"},
    {"lstm", {{"x", kX, "5,2,32"}, {"w", kW, "64,32"}, {"r", kW, "64,16"}, {"b", kP, "64"}, {"c", kP, "64"}, {"h0", kP, "1,2,16"}, {"c0", kP, "1,2,16"}}, "aten.lstm.input(%x, [%h0, %c0], [%w, %r, %b, %c], True, 1, 0.0, False, False, False)", "%y: f32[5,2,16], %hn: f32[1,2,16], %cn: f32[1,2,16]"},
    {"gru", {{"x", kX, "5,2,32"}, {"w", kW, "48,32"}, {"r", kW, "48,16"}, {"b", kP, "48"}, {"c", kP, "48"}, {"h0", kP, "1,2,16"}}, "aten.gru.input(%x, %h0, [%w, %r, %b, %c], True, 1, 0.0, False, False, False)", "%y: f32[5,2,16], %hn: f32[1,2,16]"},
    {"lstm_cell", {{"x", kX, "2,32"}, {"w", kW, "64,32"}, {"r", kW, "64,16"}, {"h0", kP, "2,16"}, {"c0", kP, "2,16"}}, "aten.lstm_cell.default(%x, [%h0, %c0], %w, %r)", "%y: f32[2,16], %c: f32[2,16]"},
};
// clang-format on

// ---- text of the graphs

bool is_dynamic(CoverageForm form) {
  return form == CoverageForm::kDynamicTensor || form == CoverageForm::kDynamicToken ||
         form == CoverageForm::kDynamicGroups;
}

std::string arguments(double scale, const CoverageSteps& steps) {
  return fmt::format("{}, {}, {}, {}, {}", scale, steps.zero_point, steps.low, steps.high,
                     steps.dtype);
}

std::string activation(const CoverageInput& input, CoverageForm form,
                       const CoverageRanges& ranges) {
  const std::string rows =
      std::string(input.shape).substr(0, std::string(input.shape).rfind(',') + 1) + "1";
  if (form == CoverageForm::kStatic)
    return fmt::format(
        "  %{0}_q: {3}[{1}] = quantized_decomposed.quantize_per_tensor.default(%{0}_f, {2})\n"
        "  %{0}: f32[{1}] = quantized_decomposed.dequantize_per_tensor.default(%{0}_q, {2})\n",
        input.name, input.shape, arguments(kActivationScale, ranges.activation),
        ranges.activation.dtype);
  if (form == CoverageForm::kDynamicTensor)
    return fmt::format(
        "  %{0}_s: f64[1], %{0}_z: i64[1] = quantized_decomposed.choose_qparams.tensor(%{0}_f, "
        "{2}, {3}, 1e-6, {4})\n"
        "  %{0}_q: {4}[{1}] = quantized_decomposed.quantize_per_tensor.tensor(%{0}_f, %{0}_s, "
        "%{0}_z, {2}, {3}, {4})\n"
        "  %{0}: f32[{1}] = quantized_decomposed.dequantize_per_tensor.tensor(%{0}_q, %{0}_s, "
        "%{0}_z, {2}, {3}, {4})\n",
        input.name, input.shape, ranges.dynamic.low, ranges.dynamic.high, ranges.dynamic.dtype);
  return fmt::format(
      "  %{0}_s: f64[{2}], %{0}_z: i64[{2}] = "
      "quantized_decomposed.choose_qparams_per_token_asymmetric.default(%{0}_f, i8)\n"
      "  %{0}_q: i8[{1}] = quantized_decomposed.quantize_per_token.default(%{0}_f, %{0}_s, %{0}_z, "
      "-128, 127, i8)\n"
      "  %{0}: f32[{1}] = quantized_decomposed.dequantize_per_token.default(%{0}_q, %{0}_s, "
      "%{0}_z, -128, 127, i8, f32)\n",
      input.name, input.shape, rows);
}

std::vector<int64_t> numbers(const std::string& shape) {
  std::vector<int64_t> sizes;
  for (size_t at = 0; at < shape.size();
       at = shape.find(',', at) == std::string::npos ? shape.size() : shape.find(',', at) + 1)
    sizes.push_back(std::stoll(shape.substr(at)));
  return sizes;
}

struct WeightText {
  std::string heads, body;
};

WeightText weights(const CoverageInput& input, CoverageForm form) {
  const std::vector<int64_t> sizes = numbers(input.shape);
  const int axis = input.kind == Operand::kWeights1 ? 1 : 0;
  if (form == CoverageForm::kNibbleGroups || form == CoverageForm::kWeightGroups ||
      form == CoverageForm::kDynamicGroups) {
    const bool is_nibble = form == CoverageForm::kNibbleGroups;
    return {
        fmt::format(
            "%{0}_i = buffer \"{0}{2}\": i8[{1}], %{0}_s = buffer \"{0}_scale\": f32[{3},{4}], ",
            input.name, input.shape, is_nibble ? "_int4" : "", sizes[0], sizes[1] / 32),
        fmt::format(
            "  %{0}: f32[{1}] = quantized_decomposed.dequantize_per_channel_group.default(%{0}_i, "
            "%{0}_s, None, {2}, i8, 32, f32)\n",
            input.name, input.shape, is_nibble ? "-8, 7" : "-128, 127")};
  }
  return {
      fmt::format("%{0}_i = buffer \"{0}\": i8[{1}], %{0}_s = buffer \"{0}_scale\": f32[{2}], "
                  "%{0}_z = buffer \"{0}_zero\": i64[{2}], ",
                  input.name, input.shape, sizes[static_cast<size_t>(axis)]),
      fmt::format("  %{0}: f32[{1}] = quantized_decomposed.dequantize_per_channel.default(%{0}_i, "
                  "%{0}_s, %{0}_z, {2}, -127, 127, i8)\n",
                  input.name, input.shape, axis)};
}

}  // namespace

std::span<const CoverageRow> coverage_rows() { return kRows; }

std::string coverage_graph(const CoverageRow& row, CoverageForm form, double scale,
                           const CoverageRanges& ranges) {
  std::string constants, inputs, body;
  for (const CoverageInput& input : row.inputs) {
    switch (input.kind) {
      case Operand::kActivation: {
        const bool is_quantized = form == CoverageForm::kStatic || is_dynamic(form);
        inputs +=
            fmt::format("%{}{}: f32[{}], ", input.name, is_quantized ? "_f" : "", input.shape);
        if (is_quantized) body += activation(input, form, ranges);
        break;
      }
      case Operand::kIndices:
        inputs += fmt::format("%{}: i64[{}], ", input.name, input.shape);
        break;
      case Operand::kParameter:
        constants += fmt::format("%{0} = param \"{0}\": f32[{1}], ", input.name, input.shape);
        break;
      default:
        if (form == CoverageForm::kFloat) {
          constants += fmt::format("%{0} = param \"{0}\": f32[{1}], ", input.name, input.shape);
        } else {
          const WeightText text = weights(input, form);
          constants += text.heads;
          body += text.body;
        }
    }
  }
  const std::string heads = constants + inputs;
  std::string text = fmt::format("graph({}):\n{}  {} = {} as main\n",
                                 heads.substr(0, heads.size() - 2), body, row.results, row.call);
  if (form != CoverageForm::kStatic || scale == 0) return text + "  return (%y)\n";
  const std::string shape =
      std::string(row.results).substr(8, std::string(row.results).find(']') - 8);
  return text + fmt::format(
                    "  %out: {2}[{0}] = quantized_decomposed.quantize_per_tensor.default(%y, {1})\n"
                    "  return (%out)\n",
                    shape, arguments(scale, ranges.result), ranges.result.dtype);
}

}  // namespace octet

// Writes convolutions, linear layers and poolings as XNNPACK nodes.

#include "backends/xnnpack/filter.h"
#include "backends/xnnpack/window.h"

namespace octet::xnnpack {
namespace {

std::vector<int64_t> spatial_of(const std::vector<int64_t>& shape) {
  return {shape.begin() + 2, shape.end()};
}

// Averages that divide every window, padding included, by the same number: a depthwise convolution.
void emit_uniform_average(StageBuilder& builder, const ProgramOp& op, Forms forms,
                          const Window& window, double divisor) {
  const ProgramTensor& x = builder.program().input(op, 0);
  const size_t channels = static_cast<size_t>(x.shape[1]);
  const FilterAndBias weights = define_uniform_depthwise(
      builder, x, window.kernel_height, window.kernel_width, channels, 1.0 / divisor);
  const OutputRange range = post_range_of(op);
  require_success(
      xnn_define_depthwise_convolution_2d(
          builder.subgraph(), window.pad_top, window.pad_right, window.pad_bottom, window.pad_left,
          window.kernel_height, window.kernel_width, window.stride_height, window.stride_width, 1,
          1, 1, channels, range.min, range.max, builder.input(op.inputs[0], forms.in),
          weights.filter, weights.bias, builder.output(op.outputs[0], forms.out), 0),
      "xnn_define_depthwise_convolution_2d");
}

// XNN_FLAG_KEEP_DIMS: the result is [N, 1, 1, C]. Without the flag, releases since 2024 drop
// dimensions of one, whatever shape was declared; older ones have no such flag and ignore it.
constexpr uint32_t kKeepDims = 0x40;

void emit_global_average(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const OutputRange range = post_range_of(op);
  require_success(
      xnn_define_global_average_pooling_2d(builder.subgraph(), range.min, range.max,
                                           builder.input(op.inputs[0], forms.in),
                                           builder.output(op.outputs[0], forms.out), kKeepDims),
      "xnn_define_global_average_pooling_2d");
}

// divisor: 0 divides each window by the number of input elements that it covers.
void emit_average(StageBuilder& builder, const ProgramOp& op, Forms forms, const Window& window,
                  int64_t divisor) {
  const ProgramTensor& x = builder.program().input(op, 0);
  if (divisor == 0 && !window.has_padding()) divisor = window.taps();
  const bool covers_input = !window.has_padding() && window.kernel_width == x.shape.back() &&
                            (x.shape.size() == 3 || window.kernel_height == x.shape[2]);
  if (covers_input && divisor == window.taps()) return emit_global_average(builder, op, forms);
  if (divisor != 0 &&
      (x.dtype != DType::kFloat32 || window.has_padding() || divisor != window.taps())) {
    return emit_uniform_average(builder, op, forms, window, static_cast<double>(divisor));
  }
  const OutputRange range = post_range_of(op);
  require_success(
      xnn_define_average_pooling_2d(builder.subgraph(), window.pad_top, window.pad_right,
                                    window.pad_bottom, window.pad_left, window.kernel_height,
                                    window.kernel_width, window.stride_height, window.stride_width,
                                    range.min, range.max, builder.input(op.inputs[0], forms.in),
                                    builder.output(op.outputs[0], forms.out), 0),
      "xnn_define_average_pooling_2d");
}

}  // namespace

void emit_conv(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const ProgramTensor& w = builder.program().input(op, 1);
  const size_t channels = static_cast<size_t>(builder.program().input(op, 0).shape[1]);
  const int64_t groups = op.get(attr::kGroups);
  const Window window = window_of(op, spatial_of(w.shape));
  const bool has_depthwise = is_depthwise(builder.program(), op);
  const FilterAndBias weights = define_filter_and_bias(
      builder, op, has_depthwise ? FilterLayout::kDepthwise : FilterLayout::kConvolution, groups);
  const OutputRange range = post_range_of(op);
  const uint32_t x = builder.input(op.inputs[0], forms.in);
  const uint32_t y = builder.output(op.outputs[0], forms.out);
  const size_t group_outputs = static_cast<size_t>(w.shape[0] / groups);
  if (has_depthwise) {
    require_success(xnn_define_depthwise_convolution_2d(
                        builder.subgraph(), window.pad_top, window.pad_right, window.pad_bottom,
                        window.pad_left, window.kernel_height, window.kernel_width,
                        window.stride_height, window.stride_width, window.dilation_height,
                        window.dilation_width, static_cast<uint32_t>(group_outputs), channels,
                        range.min, range.max, x, weights.filter, weights.bias, y, 0),
                    "xnn_define_depthwise_convolution_2d");
    return;
  }
  require_success(
      xnn_define_convolution_2d(
          builder.subgraph(), window.pad_top, window.pad_right, window.pad_bottom, window.pad_left,
          window.kernel_height, window.kernel_width, window.stride_height, window.stride_width,
          window.dilation_height, window.dilation_width, static_cast<uint32_t>(groups),
          static_cast<size_t>(w.shape[1]), group_outputs, range.min, range.max, x, weights.filter,
          weights.bias, y, 0),
      "xnn_define_convolution_2d");
}

void emit_conv_transpose(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const ProgramTensor& w = builder.program().input(op, 1);
  const int64_t groups = op.get(attr::kGroups);
  const Window window = window_of(op, spatial_of(w.shape));
  const FilterAndBias weights =
      define_filter_and_bias(builder, op, FilterLayout::kTransposed, groups);
  const OutputRange range = post_range_of(op);
  require_success(
      xnn_define_deconvolution_2d(
          builder.subgraph(), window.pad_top, window.pad_right, window.pad_bottom, window.pad_left,
          window.adjust_height, window.adjust_width, window.kernel_height, window.kernel_width,
          window.stride_height, window.stride_width, window.dilation_height, window.dilation_width,
          static_cast<uint32_t>(groups), static_cast<size_t>(w.shape[0] / groups),
          static_cast<size_t>(w.shape[1]), range.min, range.max,
          builder.input(op.inputs[0], forms.in), weights.filter, weights.bias,
          builder.output(op.outputs[0], forms.out), 0),
      "xnn_define_deconvolution_2d");
}

// XNNPACK's fully connected op has no per-channel scales, but a 1x1 convolution does; both run the
// same kernels.
void emit_linear(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const ProgramTensor& w = builder.program().input(op, 1);
  const FilterAndBias weights = define_filter_and_bias(builder, op, FilterLayout::kConvolution, 1);
  const OutputRange range = post_range_of(op);
  require_success(xnn_define_convolution_2d(
                      builder.subgraph(), 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1,
                      static_cast<size_t>(w.shape[1]), static_cast<size_t>(w.shape[0]), range.min,
                      range.max, builder.input(op.inputs[0], forms.in), weights.filter,
                      weights.bias, builder.output(op.outputs[0], forms.out), 0),
                  "xnn_define_convolution_2d");
}

void emit_max_pool(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const Window window = pooling_window_of(op, builder.program().input(op, 0).shape,
                                          builder.program().output(op).shape);
  const OutputRange range = post_range_of(op);
  require_success(
      xnn_define_max_pooling_2d(
          builder.subgraph(), window.pad_top, window.pad_right, window.pad_bottom, window.pad_left,
          window.kernel_height, window.kernel_width, window.stride_height, window.stride_width,
          window.dilation_height, window.dilation_width, range.min, range.max,
          builder.input(op.inputs[0], forms.in), builder.output(op.outputs[0], forms.out), 0),
      "xnn_define_max_pooling_2d");
}

void emit_avg_pool(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const Window window = pooling_window_of(op, builder.program().input(op, 0).shape,
                                          builder.program().output(op).shape);
  const int64_t fixed = op.get(attr::kDivisorOverride);
  const int64_t divisor = fixed != 0 ? fixed : op.get(attr::kCountIncludePad) ? window.taps() : 0;
  emit_average(builder, op, forms, window, divisor);
}

void emit_adaptive_avg_pool(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  const std::vector<int64_t>& in = builder.program().input(op, 0).shape;
  const std::vector<int64_t>& out = builder.program().output(op).shape;
  Window window;
  window.kernel_width = window.stride_width = static_cast<uint32_t>(in.back() / out.back());
  if (in.size() == 4)
    window.kernel_height = window.stride_height = static_cast<uint32_t>(in[2] / out[2]);
  emit_average(builder, op, forms, window, window.taps());
}

void emit_mean(StageBuilder& builder, const ProgramOp& op, Forms forms) {
  emit_global_average(builder, op, forms);
}

}  // namespace octet::xnnpack

// Runs linears and convolutions on bytes, and ops that read or write int16, with custom kernels.
#include <algorithm>

#include <fmt/format.h>

#include "backends/xnnpack/custom_ops.h"
#include "backends/xnnpack/dynamic.h"
#include "backends/xnnpack/native_ops.h"
#include "backends/xnnpack/stage.h"
#include "lowering/program/stored_constant.h"

namespace octet::xnnpack {
namespace {

// Bytes are signed inside of a segment.
Int16Place int16_place(const ProgramTensor& tensor, Order order) {
  RealForm form = real_form(tensor);
  if (form.dtype == DType::kUInt8) form = {DType::kInt8, form.scale, signed_zero_point(tensor)};
  return {form, strides_in(tensor.shape, order)};
}

float at_or_first(const std::vector<float>& values, size_t i) {
  return values.size() == 1 ? values[0] : values.at(i);
}

// Checks weights whose rows are the outputs.
Verdict check_byte_weight(const ProgramTensor& w) {
  constexpr int64_t kMostSummands = 65000;  // 255 * 128 of each fits 32 bits
  if (!w.is_constant() || w.dtype != DType::kInt8 || w.shape.size() < 2 || !w.qparams)
    return Verdict::refuse("its weight is not an int8 constant with scales");
  const TensorQParams& q = *w.qparams;
  if (!q.is_per_tensor() && q.axis != 0)
    return Verdict::refuse(fmt::format("its weight is quantized along axis {}, want 0", q.axis));
  if (std::any_of(q.zero_point.begin(), q.zero_point.end(), [](int32_t z) { return z != 0; }))
    return Verdict::refuse("its weight has zero points");
  return w.numel() / w.shape[0] <= kMostSummands
             ? Verdict::accept()
             : Verdict::refuse("its weight has too many elements");
}

// The scales of an op that check_byte_linear accepts.
ByteScales byte_scales(const Program& program, const ProgramOp& op) {
  const ProgramTensor& x = program.input(op, 0);
  const ProgramTensor& w = program.input(op, 1);
  const ProgramTensor& y = program.output(op);
  const OutputRange range = post_range_of(op);
  const double step = has_floats(y) ? 1 : double{y.qparams->scale[0]},
               x_scale = double{x.qparams->scale[0]};
  ByteScales scales = {
      {}, {}, static_cast<float>(range.min / step), static_cast<float>(range.max / step), {}};
  if (!has_floats(y)) scales.y_zero = signed_zero_point(y);
  const Tensor bias = op.has_input(2) ? constant_data(program.input(op, 2)).contiguous() : Tensor{};
  for (size_t i = 0; i < static_cast<size_t>(w.shape[0]); ++i) {
    const double scale = x_scale * double{at_or_first(w.qparams->scale, i)} / step;
    scales.scale.push_back(static_cast<float>(scale));
    const double shift = !bias.defined()                   ? 0
                         : bias.dtype() == DType::kFloat32 ? double{bias.data<float>()[i]} / step
                                                           : bias.data<int32_t>()[i] * scale;
    scales.bias.push_back(static_cast<float>(shift));
  }
  return scales;
}

// Removes the first of three spatial dimensions.
ProgramOp in_two_dimensions(const ProgramOp& op) {
  ProgramOp flat = op;
  for (const attr::Integers& key :
       {attr::kStride, attr::kPadding, attr::kPaddingEnd, attr::kDilation}) {
    std::vector<int64_t> values = op.get(key);
    if (values.size() != 3) continue;
    values.erase(values.begin());
    flat.attributes[key] = values;
  }
  return flat;
}

// Sets sizes and window; the caller sets weights and scales.
ByteConvTerms conv_sizes(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = program.input(op, 0).shape;
  const std::vector<int64_t>& w = program.input(op, 1).shape;
  const std::vector<int64_t>& y = program.output(op).shape;
  const size_t rank = x.size();
  ByteConvTerms terms;
  terms.images = x[0];
  terms.channels = x[1];
  terms.height = rank == 3 ? 1 : x[rank - 2];
  terms.width = x.back();
  terms.out_height = rank == 3 ? 1 : y[rank - 2];
  terms.out_width = y.back();
  terms.out = w[0];
  terms.groups = op.get(attr::kGroups);
  if (rank < 5) {
    terms.window = window_of(op, {w.begin() + 2, w.end()});
    return terms;
  }
  terms.depth = x[2];
  terms.out_depth = y[2];
  terms.window = window_of(in_two_dimensions(op), {w[3], w[4]});
  terms.depth_window = {w[2], op.get(attr::kStride, {1})[0], op.get(attr::kDilation, {1})[0],
                        op.get(attr::kPadding, {0})[0]};
  terms.is_planar = true;
  return terms;
}

}  // namespace

Verdict check_byte_linear(const Program& program, const ProgramOp& op) {
  const ProgramTensor& w = program.input(op, 1);
  if (has_floats(program.input(op, 0))) return Verdict::refuse("its input is float");
  if (Verdict verdict = check_byte_weight(w); !verdict) return verdict;
  if (op.has_input(2)) {
    const ProgramTensor& bias = program.input(op, 2);
    if (!bias.is_constant() || (!has_floats(bias) && bias.dtype != DType::kInt32))
      return Verdict::refuse("its bias is not a constant with one float or int32 per output");
  }
  const OutputRange range = post_range_of(op);
  return range.min < range.max ? Verdict::accept()
                               : Verdict::refuse(fmt::format("its results are clamped to {} and {}",
                                                             range.min, range.max));
}

std::vector<CustomStep> byte_linear_steps(const Program& program, const ProgramOp& op,
                                          std::span<const Order>, Order, pthreadpool_t) {
  const ProgramTensor& x = program.input(op, 0);
  return {
      {{0},
       ByteLinear({x.numel() / x.shape.back(), signed_zero_point(x),
                   constant_data(program.input(op, 1)).contiguous(), byte_scales(program, op)})}};
}

Verdict check_byte_conv(const Program& program, const ProgramOp& op) {
  if (Verdict verdict = check_byte_linear(program, op); !verdict) return verdict;
  return has_channels_last(program.input(op, 0).shape)
             ? Verdict::accept()
             : Verdict::refuse("it is not a convolution in one or two dimensions");
}

Verdict check_byte_conv_3d(const Program& program, const ProgramOp& op) {
  if (Verdict verdict = check_byte_linear(program, op); !verdict) return verdict;
  return program.input(op, 0).shape.size() == 5
             ? Verdict::accept()
             : Verdict::refuse("it is not a convolution in three dimensions");
}

std::vector<CustomStep> byte_conv_steps(const Program& program, const ProgramOp& op,
                                        std::span<const Order>, Order, pthreadpool_t pool) {
  ByteConvTerms terms = conv_sizes(program, op);
  terms.weights = constant_data(program.input(op, 1));
  terms.scales = byte_scales(program, op);
  terms.x_zero = signed_zero_point(program.input(op, 0));
  return {{{0}, ByteConv(terms, pool)}};
}

std::vector<CustomStep> pixel_conv_steps(const Program& program, const ProgramOp& op,
                                         std::span<const Order>, Order, pthreadpool_t pool) {
  const RowProductTerms product = row_product_terms(program, op);
  ByteConvTerms terms = conv_sizes(program, op);
  terms.weights = product.weights.values;
  terms.scales = {product.weights.scale, product.bias, product.low, product.high, {}};
  return {{{0}, ByteConv(terms, pool)}};
}

std::vector<CustomStep> int16_steps(const Program& program, const ProgramOp& op,
                                    std::span<const Order> from, Order to, pthreadpool_t) {
  std::vector<Int16Place> inputs;
  for (size_t i : int16_inputs(op)) inputs.push_back(int16_place(program.input(op, i), from[i]));
  return {
      {int16_inputs(op), Int16Kernel(program, op, inputs, int16_place(program.output(op), to))}};
}

}  // namespace octet::xnnpack

// Runs float functions, softmax, rotary embeddings, resizing, products of two activations,
// linears on integer weights and recurrent layers with custom kernels.
#include "backends/xnnpack/custom_ops.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/xnnpack/native_ops.h"
#include "backends/xnnpack/stage.h"
#include "core/base/shape.h"
#include "lowering/program/real_functions.h"
#include "lowering/program/resize_scale.h"
#include "lowering/program/stored_constant.h"

namespace octet::xnnpack {
namespace {

using Sizes = std::vector<int64_t>;

Verdict check_floats(const Program& program, const ProgramOp& op, const char* refusal) {
  return has_floats(program.input(op, 0)) && has_floats(program.output(op))
             ? Verdict::accept()
             : Verdict::refuse(refusal);
}

}  // namespace

std::optional<ByteScale> byte_scale_of(const ProgramTensor& tensor) {
  if (has_floats(tensor)) return std::nullopt;
  return ByteScale{tensor.qparams->scale[0], signed_zero_point(tensor)};
}

// ---- functions of floats

Verdict check_float_map(const Program& program, const ProgramOp& op) {
  const std::string fn = op.get(attr::kFn);
  if (find_real_function(fn) == nullptr)
    return Verdict::refuse(fmt::format("unknown function {}", fn));
  return check_floats(program, op, "input and output are not both integer or both float");
}

std::vector<CustomStep> float_map_steps(const Program& program, const ProgramOp& op,
                                        std::span<const Order>, Order, pthreadpool_t) {
  return {{{0}, FloatMap{program.output(op).numel(), *find_float_function(op)}}};
}

// ---- softmax

Verdict check_float_softmax(const Program& program, const ProgramOp& op) {
  if (program.input(op, 0).shape.empty()) return Verdict::refuse("the input is a scalar");
  return check_floats(program, op, "it reads and writes neither floats nor 8-bit integers");
}

std::vector<CustomStep> float_softmax_steps(const Program& program, const ProgramOp& op,
                                            std::span<const Order>, Order to, pthreadpool_t) {
  const Sizes& shape = program.input(op, 0).shape;
  const size_t dim = *find_dim(op.get(attr::kDim), shape.size());
  // dimensions in memory order
  std::vector<size_t> order(shape.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (to == Order::kChannelsLast) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  FloatSoftmax softmax;
  softmax.is_masked = op.get(attr::kMasked);
  bool is_behind = false;
  for (const size_t d : order) {
    (d == dim ? softmax.size : is_behind ? softmax.inner : softmax.outer) *= shape[d];
    is_behind |= d == dim;
  }
  return {{{0}, softmax}};
}

// ---- rotary embeddings

Verdict check_rotary(const Program& program, const ProgramOp& op) {
  const Sizes& x = program.input(op, 0).shape;
  const Sizes& factors = program.input(op, 1).shape;
  constexpr const char* kRefusal = "cosine and sine are not rows of floats of the input's";
  const bool fits = !factors.empty() && factors.back() == x.back() &&
                    program.input(op, 2).shape == factors && has_floats(program.input(op, 1)) &&
                    has_floats(program.input(op, 2));
  return fits ? check_floats(program, op, kRefusal) : Verdict::refuse(kRefusal);
}

std::vector<CustomStep> rotary_steps(const Program& program, const ProgramOp& op,
                                     std::span<const Order>, Order, pthreadpool_t) {
  const Sizes& x = program.input(op, 0).shape;
  const Sizes& factors = program.input(op, 1).shape;
  Sizes strides(x.size(), 0);
  for (size_t d = factors.size(), step = 1; d-- > 0; step *= static_cast<size_t>(factors[d]))
    if (factors[d] != 1) strides[x.size() - factors.size() + d] = static_cast<int64_t>(step);
  const Sizes rows = contiguous_strides(x);
  return {{{0, 1, 2}, Rotary(x, rows, strides, rows)}};
}

// ---- linears with weights that stay integers

Verdict check_weight_linear(const Program& program, const ProgramOp& op) {
  const ProgramTensor& x = program.input(op, 0);
  const ProgramTensor& w = program.input(op, 1);
  if (!w.is_constant() || !has_weight_product(w, x.numel() / w.shape[1]))
    return Verdict::refuse("its weight is not stored as integers in long groups");
  const bool has_bias = op.has_input(2);
  if (has_bias && (!program.input(op, 2).is_constant() || !has_floats(program.input(op, 2))))
    return Verdict::refuse("its bias is not a constant of floats");
  const OutputRange range = post_range_of(op);
  if (std::isfinite(range.min) || std::isfinite(range.max))
    return Verdict::refuse("its results are clamped");
  return check_floats(program, op, "input and output are not both float");
}

std::vector<CustomStep> weight_linear_steps(const Program& program, const ProgramOp& op,
                                            std::span<const Order>, Order, pthreadpool_t) {
  const ProgramTensor& w = program.input(op, 1);
  std::vector<float> bias(static_cast<size_t>(w.shape[0]), 0.0f);
  if (op.has_input(2)) {
    const Tensor given = constant_data(program.input(op, 2)).contiguous();
    std::copy_n(given.data<float>(), bias.size(), bias.begin());
  }
  return {{{0}, WeightLinear(w, program.input(op, 0).numel() / w.shape[1], std::move(bias))}};
}

// ---- attention

std::vector<CustomStep> attention_steps(const Program& program, const ProgramOp& op,
                                        std::span<const Order>, Order, pthreadpool_t) {
  CustomStep step{{0, 1, 2}, FloatAttention(program, op)};
  for (size_t i = 3; i < op.inputs.size(); ++i)
    if (op.has_input(i)) step.inputs.push_back(i);
  return {step};
}

// ---- resized images

Verdict check_resize_by_channels(const Program& program, const ProgramOp& op) {
  constexpr int64_t kLanes = 16;
  const Sizes& in = program.input(op, 0).shape;
  return has_channels_last(in) && in[1] >= kLanes ? Verdict::accept()
                                                  : Verdict::refuse("it has few channels");
}

std::vector<CustomStep> resize_steps(const Program& program, const ProgramOp& op,
                                     std::span<const Order> from, Order to, pthreadpool_t) {
  const ProgramTensor& x = program.input(op, 0);
  const Sizes& in = x.shape;
  const Sizes& out = program.output(op).shape;
  const size_t spatial = in.size() - 2, lead = 3 - spatial;
  const Resize mode = *find_resize(op.get(attr::kMode), spatial);
  ImageResize resize;
  // for a single pixel, both orders coincide
  const bool is_channels_last = from[0] == Order::kChannelsLast || to == Order::kChannelsLast;
  resize.outer = is_channels_last ? in[0] : in[0] * in[1];
  resize.inner = is_channels_last ? in[1] : 1;
  resize.from = byte_scale_of(x);
  resize.to = byte_scale_of(program.output(op));
  for (size_t d = 0; d < spatial; ++d)
    resize.axes[lead + d] = resize_axis(mode, op.get(attr::kAlignCorners),
                                        resize_scale(op, d, in, out), in[2 + d], out[2 + d]);
  return {{{0}, std::move(resize)}};
}

// ---- products of two activations

namespace {

// Matches the matrices of both factors to those of the result; leading dimensions broadcast.
MatrixBatch matrices_of(const Sizes& a, const Sizes& b, const Sizes& y) {
  MatrixBatch batch;
  batch.rows = a[a.size() - 2];
  batch.depth = a.back();
  batch.columns = b.back();
  const size_t rank = y.size() - 2;
  const Sizes of_a = padded_shape({a.begin(), a.end() - 2}, rank),
              of_b = padded_shape({b.begin(), b.end() - 2}, rank), of_y(y.begin(), y.end() - 2);
  const auto position = [rank](const Sizes& shape, const Sizes& index) {
    int64_t at = 0;
    for (size_t d = 0; d < rank; ++d) at = at * shape[d] + (shape[d] == 1 ? 0 : index[d]);
    return at;
  };
  std::map<int64_t, size_t> seen;
  Sizes index(rank, 0);
  for (int64_t i = 0, count = product(of_y); i < count; ++i) {
    batch.a.push_back(position(of_a, index) * batch.rows * batch.depth);
    const int64_t offset = position(of_b, index) * batch.depth * batch.columns;
    const auto [found, is_new] = seen.emplace(offset, batch.b.size());
    if (is_new) batch.b.push_back(offset);
    batch.b_of.push_back(found->second);
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < of_y[d]) break;
      index[d] = 0;
    }
  }
  return batch;
}

}  // namespace

Verdict check_matmul(const Program& program, const ProgramOp& op) {
  constexpr int64_t kMostSummands = 16000;  // of products of bytes, in 32 bits
  const ProgramTensor& a = program.input(op, 0);
  const ProgramTensor& b = program.input(op, 1);
  const ProgramTensor& y = program.output(op);
  if (has_floats(a) != has_floats(b))
    return Verdict::refuse("its inputs are not both integer or both float");
  if (has_floats(a) && !has_floats(y))
    return Verdict::refuse("its inputs are float and its output is not");
  if (!has_floats(a) && a.shape.back() > kMostSummands)
    return Verdict::refuse("a 32-bit accumulator may overflow");
  const OutputRange range = post_range_of(op);
  if (!(range.min < range.max))
    return Verdict::refuse(
        fmt::format("its results are clamped to {} and {}", range.min, range.max));
  return Verdict::accept();
}

std::vector<CustomStep> matmul_steps(const Program& program, const ProgramOp& op,
                                     std::span<const Order>, Order, pthreadpool_t) {
  const ProgramTensor& a = program.input(op, 0);
  const ProgramTensor& b = program.input(op, 1);
  const ProgramTensor& y = program.output(op);
  const OutputRange range = post_range_of(op);
  MatrixBatch batch = matrices_of(a.shape, b.shape, y.shape);
  if (has_floats(a)) {
    return {{{0, 1}, FloatProduct{std::move(batch), range.min, range.max}}};
  }
  const double step = has_floats(y) ? 1 : double{y.qparams->scale[0]};
  ByteProduct product(std::move(batch), signed_zero_point(a), signed_zero_point(b),
                      static_cast<float>(double{a.qparams->scale[0]} * b.qparams->scale[0] / step),
                      static_cast<float>(range.min / step), static_cast<float>(range.max / step));
  if (!has_floats(y)) product.y_zero = signed_zero_point(y);
  return {{{0, 1}, std::move(product)}};
}

// ---- recurrent layers: all steps of a direction in one call

std::vector<CustomStep> recurrent_steps(const Program& program, const ProgramOp& op,
                                        std::span<const Order>, Order, pthreadpool_t) {
  std::vector<size_t> inputs = {0, 3};
  if (op.outputs.size() > 1) inputs.push_back(4);  // lstm's cell state
  return {{std::move(inputs), std::make_shared<const RecurrentLayer>(program, op)}};
}

}  // namespace octet::xnnpack

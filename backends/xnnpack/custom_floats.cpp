// Runs float functions, softmax, rotary embeddings, resizing, products of two activations and
// recurrent layers with custom kernels.
#include "backends/xnnpack/custom_ops.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/xnnpack/native_ops.h"
#include "backends/xnnpack/stage.h"
#include "core/base/shape.h"
#include "lowering/program/real_functions.h"
#include "lowering/program/stored_constant.h"

namespace octet::xnnpack {
namespace {

using Sizes = std::vector<int64_t>;

}  // namespace

std::optional<ByteScale> byte_scale_of(const ProgramTensor& tensor) {
  if (has_floats(tensor)) return std::nullopt;
  return ByteScale{tensor.qparams->scale[0], signed_zero_point(tensor)};
}

Verdict expect_same_shape(const Program& program, const ProgramOp& op) {
  const Sizes& in = program.input(op, 0).shape;
  const Sizes& out = program.output(op).shape;
  return in == out ? Verdict::accept()
                   : Verdict::refuse(fmt::format("output has shape [{}], want [{}]",
                                                 fmt::join(out, ", "), fmt::join(in, ", ")));
}

// ---- functions of floats

Verdict check_float_map(const Program& program, const ProgramOp& op) {
  const std::string fn = op.get(attr::kFn);
  if (find_real_function(fn) == nullptr)
    return Verdict::refuse(fmt::format("unknown function {}", fn));
  if (!has_floats(program.input(op, 0)) || !has_floats(program.output(op)))
    return Verdict::refuse("input and output are not both integer or both float");
  return expect_same_shape(program, op);
}

std::vector<CustomStep> float_map_steps(const Program& program, const ProgramOp& op,
                                        std::span<const Order>, Order, pthreadpool_t) {
  return {{{0}, FloatMap{program.output(op).numel(), *find_float_function(op)}}};
}

// ---- softmax

Verdict check_float_softmax(const Program& program, const ProgramOp& op) {
  const size_t rank = program.input(op, 0).shape.size();
  if (!find_dim(op.get(attr::kDim), rank))
    return Verdict::refuse(
        fmt::format("dimension {} of {} does not exist", op.get(attr::kDim), rank));
  if (!has_floats(program.input(op, 0)) || !has_floats(program.output(op)))
    return Verdict::refuse("it reads and writes neither floats nor 8-bit integers");
  return expect_same_shape(program, op);
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
  if (op.inputs.size() != 3 || !op.has_input(1) || !op.has_input(2))
    return Verdict::refuse("it has no cosine and sine");
  const Sizes& x = program.input(op, 0).shape;
  const Sizes& factors = program.input(op, 1).shape;
  bool fits = !factors.empty() && factors.size() <= x.size() && factors.back() == x.back() &&
              x.back() % 2 == 0 && program.input(op, 2).shape == factors;
  for (size_t d = 0; fits && d < factors.size(); ++d)
    fits = factors[d] == 1 || factors[d] == x[x.size() - factors.size() + d];
  for (size_t i = 0; i < 3; ++i) fits = fits && has_floats(program.input(op, i));
  return fits && has_floats(program.output(op))
             ? expect_same_shape(program, op)
             : Verdict::refuse("cosine and sine are not float rows like those of the input");
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

// ---- resized images

Verdict check_resize(const Program& program, const ProgramOp& op) {
  const Sizes& in = program.input(op, 0).shape;
  const Sizes& out = program.output(op).shape;
  const std::vector<double> scales = op.get(attr::kScales);
  const std::string mode = op.get(attr::kMode);
  if (in.size() < 3 || in.size() > 5 || out.size() != in.size() || in[0] != out[0] ||
      in[1] != out[1] || scales.size() != in.size() - 2 || !find_resize(mode, scales.size()))
    return Verdict::refuse(fmt::format("resizing [{}] to [{}] by {}", fmt::join(in, ", "),
                                       fmt::join(out, ", "), mode));
  for (size_t d = 0; d < scales.size(); ++d) {
    if (!(scales[d] >= 0 && scales[d] < 1e9))
      return Verdict::refuse(fmt::format("its scale is {}", scales[d]));
    // at most as many taps as pixels
    if (mode.ends_with("_aa") &&
        scales[d] * static_cast<double>(out[2 + d]) > 4 * static_cast<double>(in[2 + d]))
      return Verdict::refuse("the scale does not match the sizes");
  }
  return Verdict::accept();
}

Verdict check_resize_by_channels(const Program& program, const ProgramOp& op) {
  constexpr int64_t kLanes = 16;
  const Verdict verdict = check_resize(program, op);
  if (!verdict) return verdict;
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
  const std::vector<double> scales = op.get(attr::kScales);
  const Resize mode = *find_resize(op.get(attr::kMode), spatial);
  ImageResize resize;
  // for a single pixel, both orders coincide
  const bool is_channels_last = from[0] == Order::kChannelsLast || to == Order::kChannelsLast;
  resize.outer = is_channels_last ? in[0] : in[0] * in[1];
  resize.inner = is_channels_last ? in[1] : 1;
  resize.from = byte_scale_of(x);
  resize.to = byte_scale_of(program.output(op));
  for (size_t d = 0; d < spatial; ++d)
    resize.axes[lead + d] =
        resize_axis(mode, op.get(attr::kAlignCorners), scales[d], in[2 + d], out[2 + d]);
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

Verdict check_matmul_shape(const Sizes& a, const Sizes& b, const Sizes& y) {
  const auto fits_batch = [&](const Sizes& shape) {
    const Sizes of_y(y.begin(), y.end() - 2),
        of_x = padded_shape({shape.begin(), shape.end() - 2}, of_y.size());
    for (size_t d = 0; d < of_y.size(); ++d)
      if (of_x[d] != 1 && of_x[d] != of_y[d]) return false;
    return true;
  };
  const bool fits = a.size() >= 2 && b.size() >= 2 && y.size() == std::max(a.size(), b.size()) &&
                    a.back() == b[b.size() - 2] && y[y.size() - 2] == a[a.size() - 2] &&
                    y.back() == b.back() && fits_batch(a) && fits_batch(b);
  return fits ? Verdict::accept()
              : Verdict::refuse(fmt::format("shapes [{}] x [{}] -> [{}] do not fit",
                                            fmt::join(a, ", "), fmt::join(b, ", "),
                                            fmt::join(y, ", ")));
}

}  // namespace

Verdict check_matmul(const Program& program, const ProgramOp& op) {
  constexpr int64_t kMostSummands = 16000;  // of products of bytes, in 32 bits
  if (op.inputs.size() != 2 || !op.has_input(1))
    return Verdict::refuse("it does not have two inputs");
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
  return check_matmul_shape(a.shape, b.shape, y.shape);
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

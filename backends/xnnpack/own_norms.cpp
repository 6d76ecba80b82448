// Norms by our own kernels: layer, RMS, group and batch norm.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/xnnpack/ops.h"
#include "backends/xnnpack/own_kernels.h"
#include "core/base/shape.h"
#include "lowering/program/stored_constant.h"

namespace octet::xnnpack {
namespace {

using Extents = std::vector<int64_t>;

// Inputs from `first` on are constants of `count` floats, or absent.
Verdict check_parameters(const Program& program, const ProgramOp& op, size_t first, int64_t count) {
  for (size_t i = first; i < op.inputs.size(); ++i) {
    if (!op.has_input(i)) continue;
    const ProgramTensor& parameter = program.input(op, i);
    if (!parameter.is_constant() || !has_floats(parameter) || parameter.numel() != count)
      return Verdict::refuse(
          fmt::format("its parameters are no constants of {} floats each", count));
  }
  return expect_same_shape(program, op);
}

std::vector<float> parameter_of(const Program& program, const ProgramOp& op, size_t i,
                                int64_t count, float absent) {
  std::vector<float> values(static_cast<size_t>(count), absent);
  if (!op.has_input(i)) return values;
  const Tensor constant = constant_data(program.input(op, i)).contiguous();
  std::copy_n(constant.data<float>(), values.size(), values.begin());
  return values;
}

}  // namespace

Verdict check_layer_norm(const Program& program, const ProgramOp& op) {
  const Extents& shape = program.input(op, 0).shape;
  const int64_t normalized = op.integer("normalized_dims", 1);
  if (normalized < 1 || normalized > std::ssize(shape))
    return Verdict::refuse(fmt::format("{} normalized dimensions of {}", normalized, shape.size()));
  if (op.inputs.size() > 3) return Verdict::refuse("it has more than three inputs");
  return check_parameters(program, op, 1, product({shape.end() - normalized, shape.end()}));
}

std::vector<OwnStep> layer_norm_steps(const Program& program, const ProgramOp& op,
                                      std::span<const Order>, Order, pthreadpool_t) {
  const ProgramTensor& x = program.input(op, 0);
  LayerNorm norm;
  norm.width = product({x.shape.end() - op.integer("normalized_dims", 1), x.shape.end()});
  norm.rows = x.numel() / norm.width;
  norm.eps = static_cast<float>(op.real("eps", 1e-5));
  norm.is_centered = op.kind == "layer_norm";
  norm.from = byte_scale_of(x);
  norm.to = byte_scale_of(program.output(op));
  norm.weight = parameter_of(program, op, 1, norm.width, 1);
  norm.bias = parameter_of(program, op, 2, norm.width, 0);
  return {{{0}, norm}};
}

Verdict check_group_norm(const Program& program, const ProgramOp& op) {
  const Extents& shape = program.input(op, 0).shape;
  const int64_t groups = op.integer("groups", 1);
  if (shape.size() < 2 || groups < 1 || shape[1] % groups != 0 || op.inputs.size() > 3)
    return Verdict::refuse(
        fmt::format("{} groups of the channels of [{}]", groups, fmt::join(shape, ", ")));
  return check_parameters(program, op, 1, shape[1]);
}

std::vector<OwnStep> group_norm_steps(const Program& program, const ProgramOp& op,
                                      std::span<const Order>, Order, pthreadpool_t) {
  const ProgramTensor& x = program.input(op, 0);
  LayerNorm norm;
  norm.groups = op.integer("groups", 1);
  norm.rows = x.shape[0] * norm.groups;
  norm.width = x.numel() / norm.rows;
  norm.run = product({x.shape.begin() + 2, x.shape.end()});
  norm.eps = static_cast<float>(op.real("eps", 1e-5));
  norm.from = byte_scale_of(x);
  norm.to = byte_scale_of(program.output(op));
  norm.weight = parameter_of(program, op, 1, x.shape[1], 1);
  norm.bias = parameter_of(program, op, 2, x.shape[1], 0);
  return {{{0}, norm}};
}

Verdict check_batch_norm(const Program& program, const ProgramOp& op) {
  const Extents& shape = program.input(op, 0).shape;
  if (shape.size() < 2 || op.inputs.size() < 3 || op.inputs.size() > 5 || !op.has_input(1) ||
      !op.has_input(2))
    return Verdict::refuse("it has no channels, or no mean and variance");
  return check_parameters(program, op, 1, shape[1]);
}

std::vector<OwnStep> batch_norm_steps(const Program& program, const ProgramOp& op,
                                      std::span<const Order> from, Order to, pthreadpool_t) {
  const ProgramTensor& x = program.input(op, 0);
  // of a single pixel both orders are the same
  const bool is_channels_last = from[0] == Order::kChannelsLast || to == Order::kChannelsLast;
  const int64_t pixels = product({x.shape.begin() + 2, x.shape.end()}), channels = x.shape[1];
  const std::optional<ByteScale> scale = byte_scale_of(x);
  ChannelAffine affine;
  affine.outer = is_channels_last ? x.shape[0] * pixels : x.shape[0];
  affine.channels = channels;
  affine.inner = is_channels_last ? 1 : pixels;
  affine.is_byte = scale.has_value();
  affine.to = byte_scale_of(program.output(op));
  const double eps = op.real("eps", 1e-5), step = scale ? double{scale->scale} : 1.0,
               zero = scale ? scale->zero_point : 0;
  const std::vector<float> mean = parameter_of(program, op, 1, channels, 0),
                           variance = parameter_of(program, op, 2, channels, 1),
                           weight = parameter_of(program, op, 3, channels, 1),
                           bias = parameter_of(program, op, 4, channels, 0);
  for (size_t c = 0; c < mean.size(); ++c) {
    const double factor = double{weight[c]} / std::sqrt(double{variance[c]} + eps);
    affine.factor.push_back(static_cast<float>(factor * step));
    affine.shift.push_back(
        static_cast<float>(double{bias[c]} - (double{mean[c]} + zero * step) * factor));
  }
  return {{{0}, std::move(affine)}};
}

}  // namespace octet::xnnpack

// Runs norms and reductions with custom kernels: layer, RMS, group and batch norm; sums, means,
// maxima and minima over neighboring dimensions.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/xnnpack/custom_ops.h"
#include "backends/xnnpack/native_ops.h"
#include "backends/xnnpack/stage.h"
#include "core/base/shape.h"
#include "lowering/program/stored_constant.h"

namespace octet::xnnpack {
namespace {

std::vector<float> parameter_of(const Program& program, const ProgramOp& op, size_t i,
                                int64_t count, float absent) {
  std::vector<float> values(static_cast<size_t>(count), absent);
  if (!op.has_input(i)) return values;
  const Tensor constant = constant_data(program.input(op, i)).contiguous();
  std::copy_n(constant.data<float>(), values.size(), values.begin());
  return values;
}

}  // namespace

Verdict check_norm(const Program& program, const ProgramOp& op) {
  for (size_t i = 1; i < op.inputs.size(); ++i) {
    if (!op.has_input(i)) continue;
    const ProgramTensor& parameter = program.input(op, i);
    if (!parameter.is_constant() || !has_floats(parameter))
      return Verdict::refuse("its parameters are not constant floats");
  }
  return Verdict::accept();
}

std::vector<CustomStep> layer_norm_steps(const Program& program, const ProgramOp& op,
                                         std::span<const Order>, Order, pthreadpool_t) {
  const ProgramTensor& x = program.input(op, 0);
  RowNorm norm;
  norm.width = product({x.shape.end() - op.get(attr::kNormalizedDims), x.shape.end()});
  norm.rows = x.numel() / norm.width;
  norm.eps = op.get(attr::kEps);
  norm.is_centered = op.is("layer_norm");
  norm.from = byte_scale_of(x);
  norm.to = byte_scale_of(program.output(op));
  norm.weight = parameter_of(program, op, 1, norm.width, 1);
  if (op.has_input(2)) norm.bias = parameter_of(program, op, 2, norm.width, 0);
  return {{{0}, norm}};
}

std::vector<CustomStep> group_norm_steps(const Program& program, const ProgramOp& op,
                                         std::span<const Order>, Order, pthreadpool_t) {
  const ProgramTensor& x = program.input(op, 0);
  RowNorm norm;
  norm.groups = op.get(attr::kGroups);
  norm.rows = x.shape[0] * norm.groups;
  norm.width = x.numel() / norm.rows;
  norm.run_length = product({x.shape.begin() + 2, x.shape.end()});
  norm.eps = op.get(attr::kEps);
  norm.from = byte_scale_of(x);
  norm.to = byte_scale_of(program.output(op));
  norm.weight = parameter_of(program, op, 1, x.shape[1], 1);
  norm.bias = parameter_of(program, op, 2, x.shape[1], 0);
  return {{{0}, norm}};
}

std::vector<CustomStep> batch_norm_steps(const Program& program, const ProgramOp& op,
                                         std::span<const Order> from, Order to, pthreadpool_t) {
  const ProgramTensor& x = program.input(op, 0);
  // for a single pixel, both orders coincide
  const bool is_channels_last = from[0] == Order::kChannelsLast || to == Order::kChannelsLast;
  const int64_t pixels = product({x.shape.begin() + 2, x.shape.end()}), channels = x.shape[1];
  const std::optional<ByteScale> scale = byte_scale_of(x);
  ChannelAffine affine;
  affine.outer = is_channels_last ? x.shape[0] * pixels : x.shape[0];
  affine.channels = channels;
  affine.inner = is_channels_last ? 1 : pixels;
  affine.is_byte = scale.has_value();
  affine.to = byte_scale_of(program.output(op));
  const double eps = op.get(attr::kEps), step = scale ? double{scale->scale} : 1.0,
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

// ---- reductions

namespace {

// nullopt for reductions without a custom kernel.
std::optional<Reduction::Kind> find_kind(const ProgramOp& op) {
  if (op.is("mean")) return Reduction::Kind::kMean;
  const std::optional<Reduction::Kind> kind = find_reduction(op.get(attr::kFn));
  return kind == Reduction::Kind::kProduct ? std::nullopt : kind;
}

// The first and last of the reduced dimensions (all dimensions if the op names none); nullopt if
// there are others between them.
struct Run {
  size_t first, last;
};
std::optional<Run> find_run(const ProgramOp& op, size_t rank) {
  const std::vector<int64_t> dims = op.get(attr::kDims);
  if (dims.empty()) return Run{0, rank - 1};
  std::vector<size_t> found;
  for (const int64_t dim : dims) found.push_back(*find_dim(dim, rank));
  std::sort(found.begin(), found.end());
  if (found.back() - found.front() + 1 != found.size()) return std::nullopt;
  return Run{found.front(), found.back()};
}

}  // namespace

Verdict check_reduction(const Program& program, const ProgramOp& op) {
  constexpr int64_t kMostSummands = int64_t{1} << 23;  // of bytes, in 32 bits
  const std::vector<int64_t>& x = program.input(op, 0).shape;
  if (!find_kind(op)) return Verdict::refuse(fmt::format("XNNPACK has no {}", op.get(attr::kFn)));
  const std::optional<Run> run = x.empty() ? std::nullopt : find_run(op, x.size());
  if (!run)
    return Verdict::refuse(fmt::format("its dimensions [{}] of [{}] are not adjacent",
                                       fmt::join(op.get(attr::kDims), ", "), fmt::join(x, ", ")));
  const int64_t size = product({x.begin() + static_cast<std::ptrdiff_t>(run->first),
                                x.begin() + static_cast<std::ptrdiff_t>(run->last) + 1});
  if (size > kMostSummands) return Verdict::refuse("a 32-bit accumulator may overflow");
  return Verdict::accept();
}

std::vector<CustomStep> reduction_steps(const Program& program, const ProgramOp& op,
                                        std::span<const Order>, Order, pthreadpool_t) {
  const ProgramTensor& x = program.input(op, 0);
  const Run run = *find_run(op, x.shape.size());
  Reduction reduction;
  reduction.kind = *find_kind(op);
  for (size_t d = 0; d < x.shape.size(); ++d)
    (d < run.first  ? reduction.outer
     : d > run.last ? reduction.inner
                    : reduction.size) *= x.shape[d];
  reduction.from = byte_scale_of(x);
  reduction.to = byte_scale_of(program.output(op));
  const OutputRange range = post_range_of(op);
  const float step = reduction.to ? reduction.to->scale : 1.0f;
  reduction.low = range.min / step;
  reduction.high = range.max / step;
  return {{{0}, reduction}};
}

}  // namespace octet::xnnpack

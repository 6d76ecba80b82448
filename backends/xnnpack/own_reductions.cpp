// Reductions over other dimensions than XNNPACK's, by our own kernel.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/xnnpack/own_kernels.h"
#include "backends/xnnpack/stage.h"
#include "core/base/shape.h"

namespace octet::xnnpack {
namespace {

// Nothing for what is not done here.
std::optional<Reduction::Kind> find_kind(const ProgramOp& op) {
  if (op.kind == "mean") return Reduction::Kind::kMean;
  const std::string fn = op.text("fn", "");
  if (fn == "sum") return Reduction::Kind::kSum;
  if (fn == "max") return Reduction::Kind::kMax;
  if (fn == "min") return Reduction::Kind::kMin;
  return std::nullopt;
}

// The first and last of the dimensions that are reduced; all where the op names none. Nothing when
// one does not exist.
struct Run {
  size_t first, last;
};
std::optional<Run> find_run(const ProgramOp& op, size_t rank) {
  const std::vector<int64_t> dims = op.integers("dims");
  if (dims.empty()) return Run{0, rank - 1};
  std::vector<size_t> found;
  for (const int64_t dim : dims) {
    const std::optional<size_t> d = find_dim(dim, rank);
    if (!d) return std::nullopt;
    found.push_back(*d);
  }
  std::sort(found.begin(), found.end());
  if (found.back() - found.front() + 1 != found.size()) return std::nullopt;
  return Run{found.front(), found.back()};
}

}  // namespace

Verdict check_reduction(const Program& program, const ProgramOp& op) {
  constexpr int64_t kMostSummands = int64_t{1} << 23;  // of bytes, in 32 bits
  const std::vector<int64_t>& x = program.input(op, 0).shape;
  if (!find_kind(op)) return Verdict::refuse(fmt::format("XNNPACK has no {}", op.text("fn", "")));
  const std::optional<Run> run = x.empty() ? std::nullopt : find_run(op, x.size());
  if (!run)
    return Verdict::refuse(fmt::format("its dimensions [{}] are not neighbours of [{}]",
                                       fmt::join(op.integers("dims"), ", "), fmt::join(x, ", ")));
  const int64_t size = product({x.begin() + static_cast<std::ptrdiff_t>(run->first),
                                x.begin() + static_cast<std::ptrdiff_t>(run->last) + 1});
  if (size > kMostSummands) return Verdict::refuse("a 32-bit accumulator may overflow");
  return program.output(op).numel() * size == program.input(op, 0).numel()
             ? Verdict::accept()
             : Verdict::refuse("its output has another shape");
}

std::vector<OwnStep> reduction_steps(const Program& program, const ProgramOp& op,
                                     std::span<const Order>, Order, pthreadpool_t) {
  const ProgramTensor& x = program.input(op, 0);
  const Run run = *find_run(op, x.shape.size());
  Reduction reduction;
  reduction.kind = *find_kind(op);
  reduction.outer = reduction.size = reduction.inner = 1;
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

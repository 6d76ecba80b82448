// Reductions over any dimensions: mean, and sum, max, min, prod as "reduce".
#include <cmath>

#include <fmt/format.h>

#include "backends/reference/kernel.h"

namespace octet::reference {
namespace {

// Which dimensions of the input are reduced; all when `dims` is empty or absent.
Buffer<bool> reduced_dims(std::span<const int64_t> dims, size_t rank) {
  Buffer<bool> is_reduced(rank, dims.empty());
  for (int64_t dim : dims)
    if (const std::optional<size_t> found = find_dim(dim, rank)) is_reduced[*found] = true;
  return is_reduced;
}

// Results of `combine` over the reduced elements of x, begun with `start`; *count: how many go into
// each.
template <typename Combine>
Buffer<double> reduce_elements(const KernelCall& call, double start, int64_t* count,
                               const Combine& combine) {
  const Reals<float> x = floats(call, 0);
  const std::vector<int64_t>& shape = call.input_shape(0);
  const Buffer<bool> is_reduced = reduced_dims(call.integers("dims"), shape.size());
  Sizes kept(shape.begin(), shape.end());
  *count = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    if (is_reduced[d]) {
      *count *= shape[d];
      kept[d] = 1;
    }
  StridedWalk walk(shape, broadcast_strides(kept, shape));
  Buffer<double> y(static_cast<size_t>(product(kept)), start);
  for (int64_t i = 0, n = static_cast<int64_t>(x.size()); i < n; ++i, walk.next()) {
    double& value = y[static_cast<size_t>(walk.offset())];
    value = combine(value, static_cast<double>(x[i]));
  }
  return y;
}

double plus(double a, double b) { return a + b; }
double times(double a, double b) { return a * b; }
struct Reduction {
  const char* name;
  double start;
  double (*combine)(double, double);
};
constexpr Reduction kReductions[] = {
    {"sum",  0,         plus   },
    {"prod", 1,         times  },
    {"max",  -INFINITY, greater},
    {"min",  INFINITY,  lesser },
};

const Reduction* find_reduction(const ProgramOp& op) {
  const std::string name = op.text("fn", "");
  for (const Reduction& reduction : kReductions)
    if (name == reduction.name) return &reduction;
  return nullptr;
}

void reduce(const KernelCall& call) {
  const Reduction& reduction = *find_reduction(call.op);
  int64_t count = 0;
  const Buffer<double> y = reduce_elements(call, reduction.start, &count, reduction.combine);
  store<double>(call, y);
}

void mean(const KernelCall& call) {
  int64_t count = 0;
  Buffer<double> y = reduce_elements(call, 0, &count, plus);
  for (double& value : y) value /= static_cast<double>(count);
  store<double>(call, y);
}

// ---- checks

Verdict check_mean(const Program& program, const ProgramOp& op) {
  if (Verdict counts = check_counts(op, 1, 1); !counts) return counts;
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  for (int64_t dim : op.integers("dims"))
    if (!find_dim(dim, x.size()))
      return Verdict::refuse(fmt::format("dimension {} of input {}", dim, shape_text(x)));
  const Buffer<bool> is_reduced = reduced_dims(op.integers("dims"), x.size());
  std::vector<int64_t> want;
  for (size_t d = 0; d < x.size(); ++d)
    if (!is_reduced[d] || op.flag("keepdim")) want.push_back(is_reduced[d] ? 1 : x[d]);
  const std::vector<int64_t>& y = program.tensor(op.outputs[0]).shape;
  if (y != want)
    return Verdict::refuse(
        fmt::format("output shape {}, want {}", shape_text(y), shape_text(want)));
  return Verdict::accept();
}

Verdict check_reduce(const Program& program, const ProgramOp& op) {
  if (find_reduction(op) == nullptr)
    return Verdict::refuse(fmt::format("unknown reduction \"{}\"", op.text("fn", "")));
  return check_mean(program, op);
}

constexpr KernelRow kReduceKernels[] = {
    {"mean",   mean,   check_mean  },
    {"reduce", reduce, check_reduce},
};

}  // namespace

std::span<const KernelRow> reduce_kernels() { return kReduceKernels; }

}  // namespace octet::reference

// Reductions over any dimensions: mean, and "reduce" with sum, prod, max, min or any.
#include <cmath>

#include <fmt/format.h>

#include "backends/reference/elements.h"

namespace octet::reference {
namespace {

// Which dimensions of the input are reduced; all when `dims` is empty or absent.
Buffer<bool> reduced_dims(std::span<const int64_t> dims, size_t rank) {
  Buffer<bool> is_reduced(rank, dims.empty());
  for (int64_t dim : dims)
    if (const std::optional<size_t> found = find_dim(dim, rank)) is_reduced[*found] = true;
  return is_reduced;
}

// Combines the reduced elements of x, starting with `start`; *count: elements per result.
template <typename T, typename X, typename Combine>
Buffer<T> reduce_elements(const KernelCall& call, const X& x, T start, int64_t* count,
                          const Combine& combine) {
  const std::vector<int64_t>& shape = call.input_shape(0);
  const Buffer<bool> is_reduced = reduced_dims(call.op.get(attr::kDims), shape.size());
  Sizes kept(shape.begin(), shape.end());
  *count = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    if (is_reduced[d]) {
      *count *= shape[d];
      kept[d] = 1;
    }
  StridedWalk walk(shape, broadcast_strides(kept, shape));
  Buffer<T> y(static_cast<size_t>(product(kept)), start);
  for (size_t i = 0; i < x.size(); ++i, walk.next()) {
    T& value = y[static_cast<size_t>(walk.offset())];
    value = combine(value, static_cast<T>(x.data()[i]));
  }
  return y;
}

template <typename Combine>
Buffer<double> reduce_reals(const KernelCall& call, double start, int64_t* count,
                            const Combine& combine) {
  if (call.input(0).dtype == DType::kFloat64)
    return reduce_elements(call, doubles(call, 0), start, count, combine);
  return reduce_elements(call, floats(call, 0), start, count, combine);
}

double plus(double a, double b) { return a + b; }
double times(double a, double b) { return a * b; }
double either(double a, double b) { return a != 0 || b != 0 ? 1 : 0; }
double both(double a, double b) { return a != 0 && b != 0 ? 1 : 0; }

// Adds in 64 bits, with wrapping overflow.
int64_t whole_plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t whole_times(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t whole_greater(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t whole_lesser(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t whole_either(int64_t a, int64_t b) { return a != 0 || b != 0 ? 1 : 0; }
int64_t whole_both(int64_t a, int64_t b) { return a != 0 && b != 0 ? 1 : 0; }

struct Reduction {
  const char* name;
  double start;
  double (*combine)(double, double);
  int64_t whole_start;  // for bools and integers without qparams
  int64_t (*whole)(int64_t, int64_t);
};
constexpr Reduction kReductions[] = {
    {"sum", 0, plus, 0, whole_plus},
    {"prod", 1, times, 1, whole_times},
    {"max", -INFINITY, greater, INT64_MIN, whole_greater},
    {"min", INFINITY, lesser, INT64_MAX, whole_lesser},
    {"any", 0, either, 0, whole_either},
    {"all", 1, both, 1, whole_both},
};

const Reduction* find_reduction(const ProgramOp& op) {
  const std::string name = op.get(attr::kFn);
  for (const Reduction& reduction : kReductions)
    if (name == reduction.name) return &reduction;
  return nullptr;
}

void reduce(const KernelCall& call) {
  const Reduction& reduction = *find_reduction(call.op);
  int64_t count = 0;
  if (is_all_whole(call))
    return store_elements<int64_t>(
        call, reduce_elements(call, elements<int64_t>(call, 0), reduction.whole_start, &count,
                              reduction.whole));
  store<double>(call, reduce_reals(call, reduction.start, &count, reduction.combine));
}

void mean(const KernelCall& call) {
  int64_t count = 0;
  Buffer<double> y = reduce_reals(call, 0, &count, plus);
  for (double& value : y) value /= static_cast<double>(count);
  store<double>(call, y);
}

// ---- checks

Verdict check_mean(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  for (int64_t dim : op.get(attr::kDims))
    if (!find_dim(dim, x.size()))
      return Verdict::refuse(
          fmt::format("dimension {} is out of range for input {}", dim, shape_text(x)));
  const Buffer<bool> is_reduced = reduced_dims(op.get(attr::kDims), x.size());
  std::vector<int64_t> want;
  for (size_t d = 0; d < x.size(); ++d)
    if (!is_reduced[d] || op.get(attr::kKeepdim)) want.push_back(is_reduced[d] ? 1 : x[d]);
  return check_output_shape(program, op, 0, want);
}

Verdict check_reduce(const Program& program, const ProgramOp& op) {
  if (Verdict shapes = check_mean(program, op); !shapes) return shapes;
  const std::string name = op.get(attr::kFn);
  if ((name == "any" || name == "all") && program.output(op).dtype != DType::kBool)
    return Verdict::refuse(fmt::format("{} returns bools, but its output is {}", name,
                                       name_of(program.output(op).dtype)));
  if ((name == "max" || name == "min") && program.input(op, 0).numel() == 0 &&
      program.output(op).numel() > 0)
    return Verdict::refuse(fmt::format("{} needs at least one element", name));
  return Verdict::accept();
}

constexpr KernelRow kReduceKernels[] = {
    {"mean", mean, check_mean},
    {"reduce", reduce, check_reduce},
};

}  // namespace

std::span<const KernelRow> reduce_kernels() { return kReduceKernels; }

}  // namespace octet::reference

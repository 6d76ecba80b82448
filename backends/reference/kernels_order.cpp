// Ops that order elements along a dimension (sort, topk, arg_reduce), cumulative ops, and nonzero.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "backends/reference/elements.h"

namespace octet::reference {
namespace {

// NaN is greater than any number and equal to NaN.
bool is_less(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
bool is_less(int64_t a, int64_t b) { return a < b; }

// Calls visit(offset of the line's first element, index of the line) for each line along the
// dimension.
template <typename Visit>
void for_each_line(const DimSplit& split, const Visit& visit) {
  for (int64_t line = 0; line < split.outer * split.inner; ++line)
    visit(line / split.inner * split.size * split.inner + line % split.inner, line);
}

void store_indices(const KernelCall& call, const Sizes& indices, size_t output) {
  std::copy(indices.begin(), indices.end(), call.outputs[output].data<int64_t>());
}

// ---- sort, topk

// The first `count` positions of each line in sorted order; equal elements keep their order.
template <typename T>
void order(const KernelCall& call, int64_t count, bool is_descending) {
  const DimSplit split = *find_split(call.op, call.input_shape(0));
  const Buffer<T> x = elements<T>(call, 0);
  Buffer<T> values(static_cast<size_t>(call.outputs[0].numel()));
  Sizes indices(values.size()), line(static_cast<size_t>(split.size));
  for_each_line(split, [&](int64_t first, int64_t number) {
    const auto at = [&](int64_t i) { return x[static_cast<size_t>(first + i * split.inner)]; };
    std::iota(line.begin(), line.end(), int64_t{0});
    // comparing positions makes the sort stable without heap memory
    std::sort(line.begin(), line.end(), [&](int64_t i, int64_t j) {
      const T a = at(i), b = at(j);
      if (is_descending ? is_less(b, a) : is_less(a, b)) return true;
      return !(is_descending ? is_less(a, b) : is_less(b, a)) && i < j;
    });
    const int64_t out = number / split.inner * count * split.inner + number % split.inner;
    for (int64_t i = 0; i < count; ++i) {
      const size_t to = static_cast<size_t>(out + i * split.inner);
      indices[to] = line[static_cast<size_t>(i)];
      values[to] = at(indices[to]);
    }
  });
  store_elements<T>(call, values);
  store_indices(call, indices, 1);
}

void order_any(const KernelCall& call, int64_t count, bool is_descending) {
  is_all_whole(call) ? order<int64_t>(call, count, is_descending)
                     : order<double>(call, count, is_descending);
}

void sort(const KernelCall& call) {
  order_any(call, find_split(call.op, call.input_shape(0))->size, call.op.get(attr::kDescending));
}

void topk(const KernelCall& call) {
  order_any(call, find_split(call.op, call.output_shape())->size, call.op.get(attr::kLargest));
}

// ---- arg_reduce

// Splits along `dim`, or over all elements.
std::optional<DimSplit> arg_split(const ProgramOp& op, const std::vector<int64_t>& shape) {
  if (op.has(attr::kDim)) return find_split(op, shape);
  return DimSplit{1, product(shape), 1};
}

template <typename T>
void arg_reduce_as(const KernelCall& call) {
  const DimSplit split = *arg_split(call.op, call.input_shape(0));
  const bool wants_greatest = call.op.get(attr::kFn) == "argmax";
  const Buffer<T> x = elements<T>(call, 0);
  Sizes indices(static_cast<size_t>(call.outputs[0].numel()));
  for_each_line(split, [&](int64_t first, int64_t number) {
    int64_t best = 0;
    for (int64_t i = 1; i < split.size; ++i) {
      const T value = x[static_cast<size_t>(first + i * split.inner)],
              so_far = x[static_cast<size_t>(first + best * split.inner)];
      bool is_better = wants_greatest ? value > so_far : value < so_far;
      if constexpr (std::is_same_v<T, double>)
        is_better = !std::isnan(so_far) && (is_better || std::isnan(value));
      if (is_better) best = i;
    }
    indices[static_cast<size_t>(number)] = best;
  });
  store_indices(call, indices, 0);
}

void arg_reduce(const KernelCall& call) {
  is_whole(call.input(0)) ? arg_reduce_as<int64_t>(call) : arg_reduce_as<double>(call);
}

// ---- cumulative

enum class Running { kSum, kProd, kMax, kMin, kLogSumExp };

Running running_of(const ProgramOp& op) {
  constexpr std::string_view kNames[] = {"sum", "prod", "max", "min", "logsumexp"};
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), op.get(attr::kFn));
  return static_cast<Running>(found - std::begin(kNames));
}
bool is_chosen(Running running) { return running == Running::kMax || running == Running::kMin; }

double advanced(Running running, double so_far, double x) {
  if (running == Running::kSum) return so_far + x;
  if (running == Running::kProd) return so_far * x;
  const double low = lesser(so_far, x), high = greater(so_far, x);
  return low == high && std::isinf(low) ? x : std::log1p(std::exp(low - high)) + high;
}
int64_t advanced(Running running, int64_t so_far, int64_t x) {
  const uint64_t a = static_cast<uint64_t>(so_far), b = static_cast<uint64_t>(x);
  return static_cast<int64_t>(running == Running::kSum ? a + b : a * b);
}

// Whether x replaces the maximum (minimum) so far. Among equal elements the last one wins, and so
// it does among NaNs.
template <typename T>
bool replaces(Running running, T so_far, T x) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(x)) return true;
    if (std::isnan(so_far)) return false;
  }
  return running == Running::kMax ? x >= so_far : x <= so_far;
}

template <typename T>
void cumulate(const KernelCall& call) {
  const DimSplit split = *find_split(call.op, call.input_shape(0));
  const Running running = running_of(call.op);
  const bool chooses = is_chosen(running);
  Buffer<T> y = elements<T>(call, 0);
  Sizes indices(call.outputs.size() > 1 ? y.size() : 0, 0);
  for_each_line(split, [&](int64_t first, int64_t) {
    int64_t chosen = 0;
    for (int64_t i = 1; i < split.size; ++i) {
      const size_t at = static_cast<size_t>(first + i * split.inner);
      const T so_far = y[at - static_cast<size_t>(split.inner)];
      if (!chooses) {
        y[at] = advanced(running, so_far, y[at]);
      } else if (replaces(running, so_far, y[at])) {
        chosen = i;
      } else {
        y[at] = so_far;
      }
      if (!indices.empty()) indices[at] = chosen;
    }
  });
  store_elements<T>(call, y);
  if (call.outputs.size() > 1) store_indices(call, indices, 1);
}

void cumulative(const KernelCall& call) {
  const bool is_exact = is_all_whole(call) && call.op.get(attr::kFn) != "logsumexp";
  is_exact ? cumulate<int64_t>(call) : cumulate<double>(call);
}

// ---- checks

Verdict refuse_dim(const Program& program, const ProgramOp& op) {
  return Verdict::refuse(fmt::format("dimension {} is out of range for input {}",
                                     op.get(attr::kDim),
                                     shape_text(find_input(program, op, 0)->shape)));
}

// Checks values and indices of the same shape.
Verdict check_indexed_outputs(const Program& program, const ProgramOp& op,
                              const std::vector<int64_t>& want) {
  if (Verdict shape = check_output_shape(program, op, 0, want); !shape) return shape;
  if (op.outputs.size() == 1) return Verdict::accept();
  if (Verdict dtype = check_index_output(program, op, 1); !dtype) return dtype;
  return check_output_shape(program, op, 1, want);
}

Verdict check_sort(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  if (!find_split(op, x)) return refuse_dim(program, op);
  return check_indexed_outputs(program, op, x);
}

Verdict check_topk(const Program& program, const ProgramOp& op) {
  std::vector<int64_t> want = find_input(program, op, 0)->shape;
  const std::optional<DimSplit> split = find_split(op, want);
  if (!split) return refuse_dim(program, op);
  const int64_t k = op.get(attr::kK);
  if (k < 0 || k > split->size || (want.empty() && k == 0))
    return Verdict::refuse(fmt::format("cannot take the first {} of {} elements", k, split->size));
  if (!want.empty()) want[*find_dim(op.get(attr::kDim), want.size())] = k;
  return check_indexed_outputs(program, op, want);
}

Verdict check_arg_reduce(const Program& program, const ProgramOp& op) {
  const std::string name = op.get(attr::kFn);
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const std::optional<DimSplit> split = arg_split(op, x);
  if (!split) return refuse_dim(program, op);
  std::vector<int64_t> want;
  const bool has_dim = op.has(attr::kDim), keeps = op.get(attr::kKeepdim);
  for (size_t d = 0; d < x.size(); ++d) {
    const bool is_reduced = !has_dim || d == *find_dim(op.get(attr::kDim), x.size());
    if (!is_reduced || keeps) want.push_back(is_reduced ? 1 : x[d]);
  }
  if (split->size == 0 && product(want) > 0)
    return Verdict::refuse(fmt::format("{} needs at least one element", name));
  if (Verdict dtype = check_index_output(program, op, 0); !dtype) return dtype;
  return check_output_shape(program, op, 0, want);
}

Verdict check_cumulative(const Program& program, const ProgramOp& op) {
  if (op.outputs.size() > 1 && !is_chosen(running_of(op)))
    return Verdict::refuse(fmt::format("{} returns no indices", op.get(attr::kFn)));
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  if (!find_split(op, x)) return refuse_dim(program, op);
  return check_indexed_outputs(program, op, x);
}

// ---- nonzero

template <typename T>
void find_nonzero(const KernelCall& call) {
  const std::vector<int64_t>& shape = call.input_shape(0);
  const Buffer<T> x = elements<T>(call, 0);
  int64_t* position = call.outputs[0].data<int64_t>();
  int64_t* const end = position + call.outputs[0].numel();
  Sizes index(shape.size(), 0);
  int64_t count = 0;
  for (const T& value : x) {
    if (value != 0) {
      position = std::copy(index.begin(), index.end(), position);
      ++count;
    }
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  std::fill(position, end, int64_t{0});
  *call.outputs[1].data<int64_t>() = count;
}

void nonzero(const KernelCall& call) {
  is_whole(call.input(0)) ? find_nonzero<int64_t>(call) : find_nonzero<double>(call);
}

Verdict check_nonzero(const Program& program, const ProgramOp& op) {
  const ProgramTensor& x = *find_input(program, op, 0);
  for (size_t output : {0, 1})
    if (Verdict dtype = check_index_output(program, op, output); !dtype) return dtype;
  if (Verdict count = check_output_shape(program, op, 1, {}); !count) return count;
  return check_output_shape(program, op, 0, {x.numel(), static_cast<int64_t>(x.shape.size())});
}

// ---- the rows

constexpr KernelRow kOrderKernels[] = {
    {"sort", sort, check_sort},
    {"topk", topk, check_topk},
    {"arg_reduce", arg_reduce, check_arg_reduce},
    {"cumulative", cumulative, check_cumulative},
    {"nonzero", nonzero, check_nonzero},
};

}  // namespace

std::span<const KernelRow> order_kernels() { return kOrderKernels; }

}  // namespace octet::reference

// Ops that select elements by index tensors: gather, index, index_put, scatter; and flip.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "backends/reference/elements.h"
#include "backends/reference/state_journal.h"

namespace octet::reference {
namespace {

// ---- gather, flip

void gather(const KernelCall& call) {
  const std::vector<int64_t>& shape = call.input_shape(0);
  const std::vector<int64_t>& out = call.output_shape();
  const size_t dim = shape.empty() ? 0 : *find_dim(call.op.get(attr::kDim), shape.size());
  const Sizes indices =
      read_indices(call, 1, shape.empty() ? 1 : shape[dim], IndexRange::kPositive);
  Sizes strides = strides_of(shape);
  const int64_t stride = shape.empty() ? 0 : strides[dim];
  if (!shape.empty()) strides[dim] = 0;
  StridedWalk walk(out, std::move(strides));
  auto next = indices.begin();
  move_elements(call, [&] {
    const int64_t at = walk.offset() + *next++ * stride;
    walk.next();
    return at;
  });
}

void flip(const KernelCall& call) {
  const std::vector<int64_t>& shape = call.input_shape(0);
  Sizes strides = strides_of(shape);
  int64_t first = 0;
  for (int64_t given : call.op.get(attr::kDims)) {
    const size_t dim = *find_dim(given, shape.size());
    first += (shape[dim] - 1) * strides[dim];
    strides[dim] = -strides[dim];
  }
  StridedWalk walk(shape, std::move(strides));
  move_elements(call, [&] {
    const int64_t at = first + walk.offset();
    walk.next();
    return at;
  });
}

// ---- index, index_put

// x[indices...]: the input that indexes each dimension of x, 0 for dimensions taken whole.
struct IndexPlan {
  Buffer<size_t> input_of;  // by dimension of x
  Sizes picked;             // the broadcast shape of the index tensors
  Buffer<size_t> before;    // whole dimensions before them in the result
  Buffer<size_t> after;
  Sizes result;  // the result's shape
};

// Broadcasts sizes of 1; false when the shapes do not match.
bool broadcast(Sizes& shape, std::span<const int64_t> other) {
  if (shape.size() < other.size()) shape.insert(shape.begin(), other.size() - shape.size(), 1);
  const size_t lead = shape.size() - other.size();
  for (size_t d = 0; d < other.size(); ++d) {
    if (shape[lead + d] == 1) shape[lead + d] = other[d];
    if (other[d] != 1 && other[d] != shape[lead + d]) return false;
  }
  return true;
}

// The index tensors are inputs from `first` on. nullopt when they do not match.
std::optional<IndexPlan> find_plan(const Program& program, const ProgramOp& op, size_t first) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  if (op.inputs.size() < first || op.inputs.size() - first > x.size()) return std::nullopt;
  IndexPlan plan;
  plan.input_of.assign(x.size(), 0);
  Buffer<size_t> indexed;
  for (size_t i = first; i < op.inputs.size(); ++i) {
    const ProgramTensor* indices = find_input(program, op, i);
    if (indices == nullptr) continue;
    if (!broadcast(plan.picked, indices->shape)) return std::nullopt;
    plan.input_of[i - first] = i;
    indexed.push_back(i - first);
  }
  if (indexed.empty()) return std::nullopt;
  // Index tensors of adjacent dimensions keep their position, others move to the front.
  const bool is_adjacent = indexed.back() - indexed.front() + 1 == indexed.size();
  for (size_t d = 0; d < x.size(); ++d)
    if (plan.input_of[d] == 0)
      (is_adjacent && d < indexed.front() ? plan.before : plan.after).push_back(d);
  for (size_t d : plan.before) plan.result.push_back(x[d]);
  plan.result.insert(plan.result.end(), plan.picked.begin(), plan.picked.end());
  for (size_t d : plan.after) plan.result.push_back(x[d]);
  return plan;
}

// Offsets into x of the elements of whole dimensions.
Sizes whole_offsets(const std::vector<int64_t>& shape, const Buffer<size_t>& dims) {
  const Sizes own = strides_of(shape);
  Sizes sizes, strides;
  for (size_t d : dims) {
    sizes.push_back(shape[d]);
    strides.push_back(own[d]);
  }
  StridedWalk walk(sizes, std::move(strides));
  Sizes offsets(static_cast<size_t>(product(sizes)));
  for (int64_t& offset : offsets) {
    offset = walk.offset();
    walk.next();
  }
  return offsets;
}

// Calls visit(offset into x, count) for each run of elements of the result, in order.
template <typename Visit>
void visit_runs(const KernelCall& call, const IndexPlan& plan, const Visit& visit) {
  const std::vector<int64_t>& shape = call.input_shape(0);
  const Sizes strides = strides_of(shape), before = whole_offsets(shape, plan.before);
  Sizes after = whole_offsets(shape, plan.after);
  const bool are_last =
      plan.after.empty() || plan.after.front() + plan.after.size() == shape.size();
  const int64_t run = are_last ? std::ssize(after) : 1;
  if (are_last && !after.empty()) after = {0};
  Sizes picked(static_cast<size_t>(product(plan.picked)), 0);
  for (size_t d = 0; d < shape.size(); ++d) {
    const size_t input = plan.input_of[d];
    if (input == 0) continue;
    // as in torch, indices of an empty result are not checked
    if (before.empty() || after.empty() || picked.empty()) return;
    const bool from_end = call.op.get(attr::kFromEnd);
    const Sizes indices = read_indices(call, input, shape[d],
                                       from_end ? IndexRange::kFromEnd : IndexRange::kPositive);
    StridedWalk walk(plan.picked, broadcast_strides(call.input_shape(input), plan.picked));
    for (int64_t& offset : picked) {
      offset += indices[static_cast<size_t>(walk.offset())] * strides[d];
      walk.next();
    }
  }
  for (int64_t a : before)
    for (int64_t b : picked)
      for (int64_t c : after) visit(a + b + c, run);
}

// Calls visit(offset into x) for each element of the result, in order.
template <typename Visit>
void visit_indexed(const KernelCall& call, const IndexPlan& plan, const Visit& visit) {
  visit_runs(call, plan, [&](int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) visit(at + i);
  });
}

void index(const KernelCall& call) {
  const IndexPlan plan = *find_plan(call.program, call.op, 1);
  if (is_stored_alike(call.input(0), call.output())) {
    const size_t element = size_of(call.output().dtype);
    const std::byte* const from = call.inputs[0].raw();
    std::byte* to = call.outputs[0].raw();
    return visit_runs(call, plan, [&](int64_t at, int64_t count) {
      const size_t bytes = static_cast<size_t>(count) * element;
      std::memcpy(to, from + static_cast<size_t>(at) * element, bytes);
      to += bytes;
    });
  }
  Sizes offsets;
  offsets.reserve(static_cast<size_t>(call.outputs[0].numel()));
  visit_indexed(call, plan, [&](int64_t at) { offsets.push_back(at); });
  auto next = offsets.begin();
  move_elements(call, [&] { return *next++; });
}

template <typename T>
T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <typename T>
T product_of(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}
int64_t greater_of(int64_t a, int64_t b) { return std::max(a, b); }
int64_t lesser_of(int64_t a, int64_t b) { return std::min(a, b); }
double greater_of(double a, double b) { return greater(a, b); }
double lesser_of(double a, double b) { return lesser(a, b); }

template <typename T>
void put(const KernelCall& call) {
  const IndexPlan plan = *find_plan(call.program, call.op, 2);
  Buffer<T> y = elements<T>(call, 0);
  const Buffer<T> values = elements<T>(call, 1);
  const bool accumulates = call.op.get(attr::kAccumulate);
  StridedWalk walk(plan.result, broadcast_strides(call.input_shape(1), plan.result));
  visit_indexed(call, plan, [&](int64_t at) {
    const T value = values[static_cast<size_t>(walk.offset())];
    T& element = y[static_cast<size_t>(at)];
    element = accumulates ? sum_of(element, value) : value;
    walk.next();
  });
  store_elements<T>(call, y);
}

// Whether x, the other operand and the output are exact integers.
bool is_exact(const KernelCall& call, size_t other) {
  return is_whole(call.input(0)) && is_whole(call.input(other)) && is_whole(call.output());
}

// Copies bytes. Where y has the memory of x (a state that the run writes in place), only those of
// the indexed elements.
void put_bytes(const KernelCall& call) {
  const IndexPlan plan = *find_plan(call.program, call.op, 2);
  const size_t element = size_of(call.output().dtype);
  const std::byte* const values = call.inputs[1].raw();
  std::byte* const y = call.outputs[0].raw();
  const bool is_in_place = call.inputs[0].raw() == y;
  if (!is_in_place) std::memcpy(y, call.inputs[0].raw(), call.outputs[0].nbytes());
  const bool are_whole = call.inputs[1].numel() == product(plan.result);  // none repeats
  StridedWalk walk(plan.result, broadcast_strides(call.input_shape(1), plan.result));
  size_t next = 0;
  visit_runs(call, plan, [&](int64_t at, int64_t count) {
    std::byte* const to = y + static_cast<size_t>(at) * element;
    const size_t bytes = static_cast<size_t>(count) * element;
    if (is_in_place) StateJournal::keep(to, bytes);
    if (are_whole) {
      std::memcpy(to, values + next, bytes);
      next += bytes;
      return;
    }
    for (size_t i = 0; i < bytes; i += element, walk.next())
      std::memcpy(to + i, values + static_cast<size_t>(walk.offset()) * element, element);
  });
}

void index_put(const KernelCall& call) {
  const ProgramTensor& y = call.output();
  if (!call.op.get(attr::kAccumulate) && is_stored_alike(call.input(0), y) &&
      is_stored_alike(call.input(1), y))
    return put_bytes(call);
  is_exact(call, 1) ? put<int64_t>(call) : put<double>(call);
}

// ---- scatter

enum class ScatterReduce { kNone, kSum, kProd, kMax, kMin, kMean };

ScatterReduce scatter_reduce_of(const ProgramOp& op) {
  constexpr std::string_view kNames[] = {"none", "sum", "prod", "amax", "amin", "mean"};
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), op.get(attr::kReduce));
  return static_cast<ScatterReduce>(found - std::begin(kNames));
}

template <typename T>
T combined(ScatterReduce reduce, T a, T b) {
  switch (reduce) {
    case ScatterReduce::kNone: return b;
    case ScatterReduce::kProd: return product_of(a, b);
    case ScatterReduce::kMax: return greater_of(a, b);
    case ScatterReduce::kMin: return lesser_of(a, b);
    default: return sum_of(a, b);
  }
}

// Integers round down.
int64_t mean_of(int64_t sum, int64_t count) { return sum / count - (sum % count < 0 ? 1 : 0); }
double mean_of(double sum, int64_t count) { return sum / static_cast<double>(count); }

template <typename T>
void scatter_as(const KernelCall& call) {
  const std::vector<int64_t>& shape = call.input_shape(0);
  const ScatterReduce reduce = scatter_reduce_of(call.op);
  const size_t dim = shape.empty() ? 0 : *find_dim(call.op.get(attr::kDim), shape.size());
  const Sizes indices =
      read_indices(call, 1, shape.empty() ? 1 : shape[dim], IndexRange::kPositive);
  const Buffer<T> source = elements<T>(call, 2);
  Buffer<T> y = elements<T>(call, 0);
  const int64_t own = call.op.get(attr::kIncludeSelf) ? 1 : 0;
  Sizes counts(reduce == ScatterReduce::kNone ? 0 : y.size(), own);  // number of values in y[i]
  Sizes strides = strides_of(shape);
  const int64_t stride = shape.empty() ? 0 : strides[dim];
  if (!shape.empty()) strides[dim] = 0;
  StridedWalk to(call.input_shape(1), std::move(strides));
  const std::vector<int64_t>& given = call.input_shape(2);
  StridedWalk from(call.input_shape(1), given.empty() ? Sizes(shape.size(), 0) : strides_of(given));
  for (int64_t index : indices) {
    const size_t at = static_cast<size_t>(to.offset() + index * stride);
    const T value = source[static_cast<size_t>(from.offset())];
    y[at] = reduce != ScatterReduce::kNone && counts[at]++ == 0 ? value
                                                                : combined(reduce, y[at], value);
    to.next();
    from.next();
  }
  if (reduce == ScatterReduce::kMean)
    for (size_t i = 0; i < y.size(); ++i)
      if (counts[i] > 1) y[i] = mean_of(y[i], counts[i]);
  store_elements<T>(call, y);
}

void scatter(const KernelCall& call) {
  is_exact(call, 2) ? scatter_as<int64_t>(call) : scatter_as<double>(call);
}

// ---- checks

// The index tensor has the rank of x and, except along dim, at most its sizes.
Verdict check_gather_shapes(const Program& program, const ProgramOp& op) {
  if (Verdict dtype = check_index_dtype(program, op, 1); !dtype) return dtype;
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& indices = find_input(program, op, 1)->shape;
  const std::optional<size_t> dim = find_dim(op.get(attr::kDim), std::max<size_t>(x.size(), 1));
  bool fits = dim && x.size() == indices.size();
  for (size_t d = 0; fits && d < x.size(); ++d) fits = d == *dim || indices[d] <= x[d];
  if (fits) return Verdict::accept();
  return Verdict::refuse(fmt::format("{} along dimension {} does not fit indices {} and input {}",
                                     op.kind, op.get(attr::kDim), shape_text(indices),
                                     shape_text(x)));
}

Verdict check_gather(const Program& program, const ProgramOp& op) {
  if (Verdict shapes = check_gather_shapes(program, op); !shapes) return shapes;
  return check_output_shape(program, op, 0, find_input(program, op, 1)->shape);
}

Verdict check_scatter(const Program& program, const ProgramOp& op) {
  if (Verdict shapes = check_gather_shapes(program, op); !shapes) return shapes;
  const std::vector<int64_t>& indices = find_input(program, op, 1)->shape;
  const std::vector<int64_t>& source = find_input(program, op, 2)->shape;
  bool fits = source.empty() || source.size() == indices.size();
  for (size_t d = 0; fits && d < source.size(); ++d) fits = indices[d] <= source[d];
  if (!fits)
    return Verdict::refuse(
        fmt::format("indices {} do not fit source {}", shape_text(indices), shape_text(source)));
  return check_output_shape(program, op, 0, find_input(program, op, 0)->shape);
}

Verdict check_flip(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  std::vector<bool> is_seen(x.size(), false);
  for (int64_t given : op.get(attr::kDims)) {
    const std::optional<size_t> dim = find_dim(given, x.size());
    if (!dim || is_seen[*dim])
      return Verdict::refuse(fmt::format("dims {} do not fit input {}",
                                         shape_text(op.get(attr::kDims)), shape_text(x)));
    is_seen[*dim] = true;
  }
  return check_output_shape(program, op, 0, x);
}

Verdict check_index_plan(const Program& program, const ProgramOp& op, size_t first) {
  for (size_t i = first; i < op.inputs.size(); ++i)
    if (find_input(program, op, i) != nullptr)
      if (Verdict dtype = check_index_dtype(program, op, i); !dtype) return dtype;
  if (find_plan(program, op, first)) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("its index tensors do not broadcast, or their number does not fit input {}",
                  shape_text(find_input(program, op, 0)->shape)));
}

std::vector<int64_t> result_shape(const IndexPlan& plan) {
  return {plan.result.begin(), plan.result.end()};
}

Verdict check_index(const Program& program, const ProgramOp& op) {
  if (Verdict plan = check_index_plan(program, op, 1); !plan) return plan;
  return check_output_shape(program, op, 0, result_shape(*find_plan(program, op, 1)));
}

Verdict check_index_put(const Program& program, const ProgramOp& op) {
  if (Verdict plan = check_index_plan(program, op, 2); !plan) return plan;
  const std::vector<int64_t> result = result_shape(*find_plan(program, op, 2));
  const std::vector<int64_t>& values = find_input(program, op, 1)->shape;
  if (!is_broadcastable(values, result))
    return Verdict::refuse(
        fmt::format("values {} do not broadcast to {}", shape_text(values), shape_text(result)));
  return check_output_shape(program, op, 0, find_input(program, op, 0)->shape);
}

constexpr KernelRow kIndexKernels[] = {
    {"gather", gather, check_gather},
    {"index", index, check_index},
    {"index_put", index_put, check_index_put},
    {"scatter", scatter, check_scatter},
    {"flip", flip, check_flip},
};

}  // namespace

std::span<const KernelRow> index_kernels() { return kIndexKernels; }

}  // namespace octet::reference

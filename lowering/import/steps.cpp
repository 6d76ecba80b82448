#include "lowering/import/steps.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/number_types.h"

namespace octet {
namespace {

Tensor make_filled(DType dtype, const std::vector<int64_t>& shape, double value) {
  Tensor filled = Tensor::zeros(dtype, shape);
  const bool is_known = try_number_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    std::fill_n(filled.data<T>(), filled.numel(),
                std::is_same_v<T, bool> ? value != 0 : static_cast<T>(value));
  });
  if (!is_known)
    throw Error("lower", std::string(name_of(dtype)), "has no constants of one value here");
  return filled;
}

std::vector<int64_t> row_of(const Sizes& sizes) {
  std::vector<int64_t> numbers;
  for (const SizeExpr& size : sizes) numbers.push_back(size.is_number() ? size.number() : -1);
  return numbers;
}

}  // namespace

Sizes broadcast(const Sizes& a, const Sizes& b) {
  const Sizes& longer = a.size() >= b.size() ? a : b;
  const Sizes& shorter = a.size() >= b.size() ? b : a;
  Sizes result = longer;
  const size_t lead = longer.size() - shorter.size();
  for (size_t d = 0; d < shorter.size(); ++d)
    if (result[lead + d] == SizeExpr(1)) result[lead + d] = shorter[d];
  return result;
}

SizeExpr select_place(const Steps& s, const Node& node, const SizeExpr& size) {
  const SizeExpr index = s.size_argument(node, "index", 0);
  return index.is_number() && index.number() < 0 ? size + index : index;
}

SliceRange slice_range(const Steps& s, const Node& node, const SizeExpr& size) {
  const SizeExpr given = s.size_argument(node, "start", 0);
  const bool from_end = given.is_number() && given.number() < 0;
  SizeExpr start = from_end ? maximum(size + given, 0) : given;
  if (size.is_number() && start.is_number()) start = minimum(start, size);
  const Argument* end = node.find_argument("end");
  const bool has_end =
      end != nullptr && !end->is_none() && s.size_argument(node, "end", 0) != SizeExpr(INT64_MAX);
  return {start, !has_end && node.find_argument("length") == nullptr};
}

// ---- constants and sizes

int Steps::filled(DType dtype, const std::vector<int64_t>& shape, double value) {
  return add_constant(node_.name() + "_value", make_filled(dtype, shape, value));
}

int Steps::size(const SizeExpr& size) {
  if (size.is_number()) {
    const int64_t number = size.number();
    return add_constant(node_.name() + "_size",
                        Tensor::from<int64_t>(DType::kInt64, {}, std::span(&number, 1)));
  }
  const int made = op("size", {}, {}, DType::kInt64);
  set_size("value", size);
  return made;
}

int Steps::numbers(const SizeExpr& size) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t count = size_table().greatest(size);
  if (count >= 0 && count <= kMost) {
    std::vector<int64_t> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 0);
    return slice(indices(values, {count}), 0, 0, size);
  }
  const int ones = expand(filled(DType::kInt64, {1}, 1), {size});
  const int counted = running_sum(ones);
  return sub(counted, number(1, counted));
}

int Steps::running_sum(int x) {
  return op("cumulative", {x}, sizes(x), DType::kInt64,
            {{attr::kDim, int64_t{0}}, {attr::kFn, std::string("sum")}});
}

int Steps::number(double value, int like) { return filled(dtype(like), {}, value); }

int Steps::indices(const std::vector<int64_t>& values, const std::vector<int64_t>& shape) {
  return add_constant(node_.name() + "_indices",
                      Tensor::from<int64_t>(DType::kInt64, shape, values));
}

// ---- elements

int Steps::unary(const char* function, int x, std::optional<double> alpha) {
  Attributes attributes;
  attributes[attr::kFn] = std::string(function);
  if (alpha) attributes[attr::kAlpha] = *alpha;
  return op("unary", {x}, sizes(x), dtype(x), std::move(attributes));
}

int Steps::arithmetic(const char* kind, int a, int b) {
  const bool a_is_number = tensor(a).is_constant() && rank(a) == 0;
  return op(kind, {a, b}, broadcast(sizes(a), sizes(b)), dtype(a_is_number ? b : a));
}

int Steps::binary(const char* function, int a, int b, DType dtype) {
  return op("binary", {a, b}, broadcast(sizes(a), sizes(b)), dtype,
            {{attr::kFn, std::string(function)}});
}

int Steps::where(int condition, int a, int b) {
  const bool a_is_number = tensor(a).is_constant() && rank(a) == 0;
  return op("where", {condition, a, b}, broadcast(sizes(condition), broadcast(sizes(a), sizes(b))),
            dtype(a_is_number ? b : a));
}

int Steps::clamp(int x, std::optional<double> low, std::optional<double> high) {
  Attributes attributes;
  if (low) attributes[attr::kMin] = *low;
  if (high) attributes[attr::kMax] = *high;
  return op("clamp", {x}, sizes(x), dtype(x), std::move(attributes));
}

int Steps::cast(int x, DType wanted) {
  return dtype(x) == wanted ? x : op("cast", {x}, sizes(x), wanted);
}

// ---- reductions

namespace {

std::vector<int64_t> all_or_given(std::vector<int64_t> dims, size_t rank) {
  for (int64_t& dim : dims) dim = positive_dim(dim, rank);
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
  }
  return dims;
}

Sizes reduced(const Sizes& sizes, const std::vector<int64_t>& dims, bool keepdim) {
  Sizes result;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool is_reduced =
        std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    if (!is_reduced) result.push_back(sizes[d]);
    if (is_reduced && keepdim) result.push_back(1);
  }
  return result;
}

}  // namespace

int Steps::reduce(const char* function, int x, std::vector<int64_t> dims, bool keepdim,
                  std::optional<DType> wanted) {
  if (rank(x) == 0) return cast(x, wanted.value_or(dtype(x)));
  dims = all_or_given(std::move(dims), rank(x));
  return op("reduce", {x}, reduced(sizes(x), dims, keepdim), wanted.value_or(dtype(x)),
            {{attr::kFn, std::string(function)}, {attr::kDims, dims}, {attr::kKeepdim, keepdim}});
}

int Steps::mean(int x, std::vector<int64_t> dims, bool keepdim) {
  if (rank(x) == 0) return x;
  dims = all_or_given(std::move(dims), rank(x));
  return op("mean", {x}, reduced(sizes(x), dims, keepdim), dtype(x),
            {{attr::kDims, dims}, {attr::kKeepdim, keepdim}});
}

// ---- products

int Steps::matmul(int a, int b) {
  const Sizes sa = sizes(a), sb = sizes(b);
  OCTET_ASSERT(sa.size() >= 2 && sb.size() >= 2, "matmul wants matrices");
  Sizes result = broadcast(Sizes(std::vector<SizeExpr>(sa.begin(), sa.end() - 2)),
                           Sizes(std::vector<SizeExpr>(sb.begin(), sb.end() - 2)));
  result.push_back(sa[sa.size() - 2]);
  result.push_back(sb.back());
  return op("matmul", {a, b}, result, dtype(a));
}

// ---- movement

int Steps::reshape(int x, const Sizes& wanted) {
  return sizes(x) == wanted ? x : op("reshape", {x}, wanted, dtype(x));
}

SizeExpr element_count(const Sizes& sizes) {
  SizeExpr count = 1;
  for (const SizeExpr& size : sizes) count = count * size;
  return count;
}

int Steps::flatten(int x) { return reshape(x, {element_count(sizes(x))}); }

int Steps::permute(int x, const std::vector<int64_t>& dims) {
  if (std::is_sorted(dims.begin(), dims.end())) return x;
  const Sizes from = sizes(x);
  Sizes to;
  for (int64_t dim : dims) to.push_back(from[static_cast<size_t>(dim)]);
  return op("permute", {x}, to, dtype(x), {{attr::kDims, dims}});
}

int Steps::transpose(int x, int64_t dim0, int64_t dim1) {
  std::vector<int64_t> dims(rank(x));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[dim_of(x, dim0)], dims[dim_of(x, dim1)]);
  return permute(x, dims);
}

int Steps::unsqueeze(int x, int64_t dim) {
  Sizes wanted = sizes(x);
  wanted.insert(wanted.begin() + positive_dim(dim, wanted.size() + 1), 1);
  return reshape(x, wanted);
}

int Steps::expand(int x, const Sizes& wanted) {
  return sizes(x) == wanted ? x : op("expand", {x}, wanted, dtype(x));
}

int Steps::slice(int x, int64_t dim, const SizeExpr& start, const SizeExpr& size, int64_t step) {
  const size_t at = dim_of(x, dim);
  Sizes wanted = sizes(x);
  if (wanted[at] == size && step == 1) return x;
  wanted[at] = size;
  const int taken = op("slice", {x}, wanted, dtype(x),
                       {{attr::kDim, static_cast<int64_t>(at)}, {attr::kStep, step}});
  set_size("start", start);
  return taken;
}

int Steps::cat(const std::vector<int>& inputs, int64_t dim) {
  if (inputs.size() == 1) return inputs[0];
  const size_t at = dim_of(inputs[0], dim);
  Sizes wanted = sizes(inputs[0]);
  wanted[at] = 0;
  for (int input : inputs) wanted[at] = wanted[at] + sizes(input)[at];
  return op("cat", inputs, wanted, dtype(inputs[0]), {{attr::kDim, static_cast<int64_t>(at)}});
}

int Steps::take(int x, int64_t dim, const std::vector<int64_t>& values) {
  const size_t at = dim_of(x, dim);
  Sizes wanted = sizes(x);
  wanted[at] = static_cast<int64_t>(values.size());
  std::vector<int> inputs = {x};
  inputs.resize(1 + at, -1);
  inputs.push_back(indices(values, {static_cast<int64_t>(values.size())}));
  return op("index", std::move(inputs), wanted, dtype(x));
}

int Steps::put_slice(int x, size_t dim, const SizeExpr& start, int64_t step, int source,
                     bool to_end) {
  const SizeExpr whole = sizes(x)[dim], count = sizes(source)[dim];
  const auto at = static_cast<int64_t>(dim);
  source = cast(source, dtype(x));
  const bool is_fixed = whole.is_number() && count.is_number() && start.is_number();
  if (step != 1 && is_fixed) {
    std::vector<int64_t> places(static_cast<size_t>(count.number()));
    for (size_t i = 0; i < places.size(); ++i)
      places[i] = start.number() + static_cast<int64_t>(i) * step;
    return put_at(x, dim, places, source);
  }
  if (step != 1) {
    int places = numbers(count);
    places = mul(places, number(static_cast<double>(step), places));
    std::vector<int> inputs = {x, source};
    inputs.resize(2 + dim, -1);
    inputs.push_back(start == SizeExpr(0) ? places : add(places, size(start)));
    return op("index_put", std::move(inputs), sizes(x), dtype(x), {{attr::kAccumulate, false}});
  }
  std::vector<int> parts;
  if (start != SizeExpr(0)) parts.push_back(slice(x, at, 0, start));
  parts.push_back(source);
  const SizeExpr end = start + count;
  if (!to_end && (!is_fixed || end.number() < whole.number()))
    parts.push_back(slice(x, at, end, whole - end));
  if (parts.size() == 1) return parts[0];
  return op("cat", parts, sizes(x), dtype(x), {{attr::kDim, at}});
}

int Steps::put_at(int x, size_t dim, const std::vector<int64_t>& places, int source) {
  const int64_t size = sizes(x)[dim].number();
  std::vector<int64_t> from(static_cast<size_t>(size));
  std::iota(from.begin(), from.end(), 0);
  for (size_t i = 0; i < places.size(); ++i)
    from[static_cast<size_t>(places[i])] = size + static_cast<int64_t>(i);
  const auto at = static_cast<int64_t>(dim);
  return take(cat({x, cast(source, dtype(x))}, at), at, from);
}

// ---- refusals

void Steps::refuse(const std::string& why, RefusalKind kind) const {
  importer_.refusals().add_refusal(node_, why, kind);
}

void Steps::fail(const std::string& what) const {
  throw Error("lower", fmt::format("{} ({})", node_.name(), node_.target()), what);
}

// ---- results

int Steps::add_result(const std::string& name, DType dtype, const Sizes& sizes) {
  const int result = builder().add_intermediate(name, dtype, sizes);
  program().ops.back().outputs.push_back(result);
  return result;
}

void Steps::write(Value* written, int tensor) { importer_.writes().write(node_, written, tensor); }

void Steps::give(Value* value, int x) {
  if (value->meta) {
    x = cast(x, value->meta->dtype);
    const Sizes wanted = sizes_of(*value);
    if (row_of(wanted) != row_of(sizes(x))) x = reshape(x, wanted);
  }
  builder().give(node_, value, x);
}

}  // namespace octet

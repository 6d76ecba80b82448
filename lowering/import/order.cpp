// Imports ops on the order of elements: sort, topk, arg-reductions, cumulative sums and extremes,
// differences, medians, searchsorted.
#include <algorithm>

#include "lowering/import/steps.h"

namespace octet {
namespace {

// ---- values and where they are

// Emits an op with values and indices; results that nothing reads stay unnamed.
void give_both(Steps& s, const Node& node, const std::string& kind, int x, Attributes attributes) {
  const std::vector<Value*> values = node.outputs();
  const bool is_number = values[0]->meta && values[0]->meta->sizes.empty();
  if (!is_number) {
    s.emit_values({values[0], values[1]}, kind, {x}, std::move(attributes));
    return;
  }
  const int first = s.op(kind, {x}, s.sizes(x), s.dtype(x), std::move(attributes));
  const int second = s.add_result(node.name() + "_indices", DType::kInt64, s.sizes(x));
  s.give(values[0], first);
  s.give(values[1], second);
}

void import_topk(Steps& s, const Node& node) {
  const int x = s.at_least_1d(s.operand("self"));
  Attributes attributes = s.dim_attribute(x, -1);
  attributes[attr::kK] = node.int_or("k", 1);
  attributes[attr::kLargest] = node.bool_or("largest", true);
  attributes[attr::kSorted] = node.bool_or("sorted", true);
  give_both(s, node, "topk", x, std::move(attributes));
}

Attributes sort_attributes(Steps& s, const Node& node, int x) {
  Attributes attributes = s.dim_attribute(x, -1);
  attributes[attr::kDescending] = node.bool_or("descending", false);
  attributes[attr::kStable] = true;
  return attributes;
}

void import_sort(Steps& s, const Node& node) {
  const int x = s.at_least_1d(s.operand("self"));
  give_both(s, node, "sort", x, sort_attributes(s, node, x));
}

void import_argsort(Steps& s, const Node& node) {
  const int x = s.at_least_1d(s.operand("self"));
  const int values = s.builder().add_intermediate(node.name() + "_sorted", s.dtype(x), s.sizes(x));
  ProgramOp& op = s.emit("sort", {x}, sort_attributes(s, node, x));
  op.outputs.insert(op.outputs.begin(), values);
}

void import_arg_reduction(Steps& s, const Node& node) {
  import_arg_reduce(s, node, s.word(), node.outputs().front());
}

// ---- running sums

void import_cumulative(Steps& s, const Node& node) {
  const int x = s.at_least_1d(s.operand("self"));
  Attributes attributes = s.dim_attribute(x, 0);
  attributes[attr::kFn] = std::string(s.word());
  if (node.outputs().size() > 1) return give_both(s, node, "cumulative", x, attributes);
  const Value* value = node.outputs().front();
  const DType dtype = value->meta ? value->meta->dtype : s.dtype(x);
  s.give(s.op("cumulative", {s.whole_first(x, dtype)}, s.sizes(x), dtype, std::move(attributes)));
}

// ---- an element of the sorted tensor

// Gives the elements at `place`, an int64 tensor of size 1 along the dimension.
void give_sorted(Steps& s, const Node& node, const Sorted& sorted, int place) {
  const auto taken = [&](int x) {
    return s.op("gather", {x, place}, s.sizes(place), s.dtype(x), {{attr::kDim, sorted.dim}});
  };
  const std::vector<Value*> results = node.outputs();
  s.give(results[0], taken(sorted.values));
  if (results.size() > 1) s.give(results[1], taken(sorted.indices));
}

// x if the node has a dimension, else x flattened.
int along_or_flat(Steps& s, const Node& node, int x) {
  x = s.at_least_1d(x);
  const Argument* dim = node.find_argument("dim");
  if (dim != nullptr && !dim->is_none()) return x;
  return s.flatten(x);
}

void import_kthvalue(Steps& s, const Node& node) {
  const int x = s.at_least_1d(s.self());
  const Sorted sorted = sorted_along(s, node, x, node.int_or("dim", -1));
  Sizes one = s.sizes(x);
  one[static_cast<size_t>(sorted.dim)] = 1;
  const int place = s.indices({node.int_or("k", 1) - 1}, std::vector<int64_t>(s.rank(x), 1));
  give_sorted(s, node, sorted, s.expand(place, one));
}

// The lower of the two middle elements. NaN sorts last: if there is one, it is the median;
// nanmedian ignores it.
void import_median(Steps& s, const Node& node) {
  const int x = along_or_flat(s, node, s.self());
  const int64_t dim = node.int_or("dim", s.rank(x) == 1 ? 0 : -1);
  const SizeExpr size = s.sizes(x)[s.dim_of(x, dim)];
  if (!size.is_number() || size.number() < 1)
    return s.refuse("along a dimension that is empty or whose size is not fixed");
  const int64_t count = size.number();
  const Sorted sorted = sorted_along(s, node, x, dim);
  const int missing = s.reduce("sum", s.compare("ne", x, x), {sorted.dim}, true, DType::kInt64);
  const int middle = s.filled(DType::kInt64, {}, static_cast<double>((count - 1) / 2));
  const int all = s.filled(DType::kInt64, {}, static_cast<double>(count));
  const int known = s.op("sub", {all, missing}, s.sizes(missing), DType::kInt64);
  int place;
  if (node.is("aten.nanmedian")) {
    const int before = s.sub(known, s.filled(DType::kInt64, {}, 1));
    const int half = s.binary("div_floor", before, s.filled(DType::kInt64, {}, 2), DType::kInt64);
    place = s.arithmetic("maximum", half, s.filled(DType::kInt64, {}, 0));
  } else {
    const int zero = s.filled(DType::kInt64, {}, 0);
    place = s.where(s.compare("gt", missing, zero), known, middle);
  }
  give_sorted(s, node, sorted, place);
}

void import_aminmax(Steps& s, const Node& node) {
  const int x = s.at_least_1d(s.self());
  const Argument* dim = node.find_argument("dim");
  std::vector<int64_t> dims;
  if (dim != nullptr && !dim->is_none()) dims = {node.int_or("dim", 0)};
  const bool keeps = node.bool_or("keepdim", false);
  const std::vector<Value*> results = node.outputs();
  s.give(results[0], s.reduce("min", x, dims, keeps));
  s.give(results[1], s.reduce("max", x, dims, keeps));
}

// ---- counting

// Compares [.., N, 1] with [.., M] and counts, for each of the N, how many of the M match.
int count_of(Steps& s, const char* function, int x, int others, bool is_row) {
  const int wide = s.unsqueeze(x, static_cast<int64_t>(s.rank(x)));
  const int row = is_row ? others : s.unsqueeze(others, static_cast<int64_t>(s.rank(others)) - 1);
  return s.reduce("sum", s.compare(function, wide, row), {-1}, false, DType::kInt64);
}

// The number of elements of the ascending sequence below x (right: not above x).
void import_searchsorted(Steps& s, const Node& node) {
  const int x = s.self(), sequence = s.operand("sorted_sequence");
  const Argument* sorter = node.find_argument("sorter");
  if (sorter != nullptr && !sorter->is_none()) return s.refuse("with an order of the sequence");
  const std::string word = text_argument(node, "side");
  const bool is_right = node.bool_or("right", false) || (word == "right");
  s.give(count_of(s, is_right ? "ge" : "gt", x, sequence, s.rank(sequence) == 1));
}

void import_isin(Steps& s, const Node& node) {
  const int x = s.operand({"elements", "element"});
  const int others = s.operand({"test_elements", "test_element"});
  if (x < 0 || others < 0) return s.refuse("without two operands");
  const int found = count_of(s, "eq", x, s.flatten(others), true);
  s.give(s.compare(node.bool_or("invert", false) ? "eq" : "gt", found,
                   s.filled(DType::kInt64, {}, 0)));
}

// x[i + 1] - x[i] along a dimension, n times; of bools, whether they differ.
void import_diff(Steps& s, const Node& node) {
  const int64_t dim = node.int_or("dim", -1);
  std::vector<int> parts;
  for (const char* name : {"prepend", "self", "append"})
    if (const int part = s.operand(name); part >= 0) parts.push_back(part);
  int x = s.cat(parts, dim);
  for (int64_t n = node.int_or("n", 1); n > 0; --n) {
    const SizeExpr size = s.sizes(x)[s.dim_of(x, dim)];
    const SizeExpr less = size.is_number() ? SizeExpr(std::max<int64_t>(size.number() - 1, 0))
                                           : maximum(size + SizeExpr(-1), 0);
    const int next = s.slice(x, dim, minimum(SizeExpr(1), size), less);
    const int before = s.slice(x, dim, 0, less);
    x = s.dtype(x) == DType::kBool ? s.compare("ne", next, before) : s.sub(next, before);
  }
  s.give(x);
}

constexpr ImportRow kOrderRows[] = {
    {"aten.topk", import_topk},
    {"aten.sort", import_sort},
    {"aten.argsort", import_argsort},
    {"aten.argmax", import_arg_reduction, "argmax"},
    {"aten.argmin", import_arg_reduction, "argmin"},
    {"aten.cumsum", import_cumulative, "sum"},
    {"aten.cumprod", import_cumulative, "prod"},
    {"aten.cummax", import_cumulative, "max"},
    {"aten.cummin", import_cumulative, "min"},
    {"aten.logcumsumexp", import_cumulative, "logsumexp"},
    {"aten.kthvalue", import_kthvalue},
    {"aten.median", import_median},
    {"aten.nanmedian", import_median},
    {"aten.aminmax", import_aminmax},
    {"aten.searchsorted", import_searchsorted},
    {"aten.isin", import_isin},
    {"aten.diff", import_diff},
};

}  // namespace

void import_arg_reduce(Steps& s, const Node& node, const char* function, Value* value) {
  const int x = s.operand("self");
  Attributes attributes;
  attributes[attr::kFn] = std::string(function);
  const Argument* dim = node.find_argument("dim");
  if (dim != nullptr && !dim->is_none() && s.rank(x) > 0)
    attributes[attr::kDim] = static_cast<int64_t>(s.dim_of(x, node.int_or("dim", 0)));
  attributes[attr::kKeepdim] = node.bool_or("keepdim", false);
  s.emit_value(value, "arg_reduce", {x}, std::move(attributes));
}

Sorted sorted_along(Steps& s, const Node& node, int x, int64_t dim) {
  Sorted sorted{-1, -1, static_cast<int64_t>(s.dim_of(x, dim))};
  sorted.values =
      s.op("sort", {x}, s.sizes(x), s.dtype(x),
           {{attr::kDim, sorted.dim}, {attr::kDescending, false}, {attr::kStable, true}});
  sorted.indices = s.add_result(node.name() + "_order", DType::kInt64, s.sizes(x));
  return sorted;
}

std::span<const ImportRow> order_import_rows() { return kOrderRows; }

}  // namespace octet

// Imports ops that read or write elements by tensors of indices, or compute indices.
#include <algorithm>
#include <optional>

#include "lowering/import/steps.h"

namespace octet {
namespace {

// ---- reading

void import_gather(Steps& s, const Node&) {
  const int x = s.at_least_1d(s.operand("self"));
  const int index = s.cast(s.at_least_1d(s.operand("index")), DType::kInt64);
  s.give(s.op("gather", {x, index}, s.sizes(index), s.dtype(x), s.dim_attribute(x, 0)));
}

void import_take_along_dim(Steps& s, const Node& node) {
  int x = s.operand("self"), index = s.operand("indices");
  const Argument* dim = node.find_argument("dim");
  if (dim == nullptr || dim->is_none()) return s.refuse("without a dimension");
  const size_t at = s.dim_of(x, node.int_or("dim", 0));
  Sizes x_sizes = s.sizes(x), index_sizes = s.sizes(index);
  if (x_sizes.size() != index_sizes.size()) return s.refuse("with indices of another rank");
  for (size_t d = 0; d < x_sizes.size(); ++d)
    if (d != at)
      x_sizes[d] = index_sizes[d] = broadcast(Sizes{x_sizes[d]}, Sizes{index_sizes[d]})[0];
  x = s.expand(x, x_sizes);
  index = s.expand(index, index_sizes);
  s.give(s.op("gather", {x, index}, index_sizes, s.dtype(x), s.dim_attribute(x, 0)));
}

// One tensor for each dimension up to the last indexed one, or a mask for several dimensions; -1:
// not indexed.
std::vector<int> given_indices(Steps& s, const Node& node) {
  std::vector<int> indices;
  for (Value* value : index_values(node))
    indices.push_back(value == nullptr ? -1 : s.tensor_of(value));
  while (!indices.empty() && indices.back() < 0) indices.pop_back();
  return indices;
}

bool has_mask(const Steps& s, const std::vector<int>& indices) {
  return std::any_of(indices.begin(), indices.end(), [&](int index) {
    return index >= 0 && s.tensor(index).dtype == DType::kBool;
  });
}

void import_index(Steps& s, const Node& node) {
  const int x = s.operand("self");
  std::vector<int> indices = given_indices(s, node);
  if (indices.empty()) return s.give(x);
  if (has_mask(s, indices)) return import_index_by_mask(s, node, x, indices);
  indices.insert(indices.begin(), x);
  s.emit("index", std::move(indices));
}

std::vector<int> along(size_t dim, int index) {
  std::vector<int> indices(dim, -1);
  indices.push_back(index);
  return indices;
}

std::vector<int> along(int x, size_t dim, int index) {
  std::vector<int> inputs = along(dim, index);
  inputs.insert(inputs.begin(), x);
  return inputs;
}

void import_index_select(Steps& s, const Node& node) {
  const int x = s.at_least_1d(s.operand("self")), index = s.at_least_1d(s.operand("index"));
  const size_t dim = s.dim_of(x, node.int_or("dim", 0));
  const Attributes attributes = {{attr::kFromEnd, false}};
  if (!s.tensor(s.operand("self")).shape.empty()) {
    s.emit("index", along(x, dim, index), attributes);
    return;
  }
  s.give(s.op("index", along(x, dim, index), s.sizes(index), s.dtype(x), attributes));
}

// ---- writing

void emit_index_put(Steps& s, int x, int values, const std::vector<int>& indices, bool accumulate) {
  std::vector<int> inputs = {x, s.cast(values, s.dtype(x))};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  s.give(s.op("index_put", std::move(inputs), s.sizes(x), s.dtype(x),
              {{attr::kAccumulate, accumulate}}));
}

// Writes the elements of `source`, in order, into x where the mask is set.
int with_masked(Steps& s, int x, int mask, int source) {
  const Sizes sizes = s.sizes(x);
  const int set = s.flatten(s.expand(mask, sizes));
  const int counted = s.running_sum(set);
  const int one = s.filled(DType::kInt64, {}, 1), zero = s.filled(DType::kInt64, {}, 0);
  // index 0 where the mask is not set; the source gets an element if it may be empty
  const int place = s.where(set, s.sub(counted, one), zero);
  const bool may_be_empty = is_symbolic(s.sizes(source));
  source = s.flatten(source);
  if (may_be_empty) source = s.cat({source, s.filled(s.dtype(source), {1}, 0)}, 0);
  const int taken = s.op("index", {source, place}, s.sizes(set), s.dtype(source));
  return s.reshape(s.where(set, s.cast(taken, s.dtype(x)), s.flatten(x)), sizes);
}

void import_masked_scatter(Steps& s, const Node&) {
  s.give(with_masked(s, s.operand("self"), s.operand("mask"), s.operand("source")));
}

// Writes one row of `values` for each set element of the mask, which covers the first dimensions.
void put_rows(Steps& s, const Node& node, int x, int mask, int values) {
  const int places = first_places(s, node, mask, s.sizes(values)[0]);
  if (places < 0) return;
  std::vector<int> indices;
  for (size_t d = 0; d < s.rank(mask); ++d)
    indices.push_back(column(s, places, static_cast<int64_t>(d)));
  emit_index_put(s, x, values, indices, false);
}

// Writes values where a mask is set: one value for all, or one for each.
bool put_by_mask(Steps& s, const Node& node, int x, int values) {
  const std::vector<int> indices = given_indices(s, node);
  if (indices.size() != 1) return false;
  int mask = indices[0];
  if (s.dtype(mask) != DType::kBool || node.bool_or("accumulate", false)) return false;
  if (s.rank(mask) > s.rank(x)) return false;
  const size_t trailing = s.rank(x) - s.rank(mask);  // dimensions that are written whole
  Sizes sizes = s.sizes(mask);
  sizes.resize(s.rank(x), 1);
  mask = s.reshape(mask, sizes);
  const Sizes given = s.sizes(values);
  if (given.size() == trailing + 1 && !(given[0] == SizeExpr(1))) {
    Sizes rows = s.sizes(x);
    rows.erase(rows.begin(), rows.end() - static_cast<int64_t>(trailing));
    rows.insert(rows.begin(), given[0]);
    values = s.expand(values, rows);
    s.size_table().is_counted(given[0]) ? put_rows(s, node, x, indices[0], values)
                                        : s.give(with_masked(s, x, mask, values));
    return true;
  }
  if (given.size() > trailing)
    values = s.reshape(values, Sizes(std::vector<SizeExpr>(
                                   given.end() - static_cast<int64_t>(trailing), given.end())));
  s.give(s.where(mask, s.cast(values, s.dtype(x)), x));
  return true;
}

void import_index_put(Steps& s, const Node& node) {
  const int x = s.operand("self"), values = s.operand("values");
  if (put_by_mask(s, node, x, values)) return;
  const std::vector<int> indices = given_indices(s, node);
  if (has_mask(s, indices))
    return s.refuse("by a boolean mask, where the size of the result depends on the data");
  emit_index_put(s, x, values, indices, node.bool_or("accumulate", false));
}

// Writes along one dimension. index_put expects that dimension of the values first.
void put_along(Steps& s, const Node& node, int values, bool accumulate) {
  const int x = s.at_least_1d(s.operand("self")), index = s.at_least_1d(s.operand("index"));
  const size_t dim = s.dim_of(x, node.int_or("dim", 0));
  emit_index_put(s, x, values, along(dim, index), accumulate);
}
void import_index_copy(Steps& s, const Node& node) {
  put_along(s, node, s.operand("source"), false);
}
void import_index_fill(Steps& s, const Node& node) {
  put_along(s, node, s.operand("value"), false);
}
void import_index_add(Steps& s, const Node& node) {
  int source = s.operand("source");
  if (node.float_or("alpha", 1) != 1)
    source = s.mul(source, s.number(node.float_or("alpha", 1), source));
  put_along(s, node, source, true);
}

// take, put: indices into the flattened tensor; negative ones count from the end.
void import_take(Steps& s, const Node&) {
  const int x = s.flatten(s.operand("self")), index = s.operand("index");
  s.give(s.op("index", {x, index}, s.sizes(index), s.dtype(x)));
}
void import_put(Steps& s, const Node& node) {
  const int x = s.flatten(s.operand("self"));
  emit_index_put(s, x, s.flatten(s.operand("source")), {s.flatten(s.operand("index"))},
                 node.bool_or("accumulate", false));
}

void emit_scatter(Steps& s, int source, const std::string& reduce, bool include_self) {
  const int x = s.operand("self");
  Attributes attributes = s.dim_attribute(x, 0);
  attributes[attr::kReduce] = reduce;
  attributes[attr::kIncludeSelf] = include_self;
  s.give(s.op("scatter", {x, s.operand("index"), s.cast(source, s.dtype(x))}, s.sizes(x),
              s.dtype(x), std::move(attributes)));
}

void import_scatter(Steps& s, const Node& node) {
  const std::string reduce = text_argument(node, "reduce");
  emit_scatter(s, s.operand({"src", "value"}),
               reduce == "add"        ? "sum"
               : reduce == "multiply" ? "prod"
                                      : "none",
               true);
}
void import_scatter_add(Steps& s, const Node&) { emit_scatter(s, s.operand("src"), "sum", true); }
void import_scatter_reduce(Steps& s, const Node& node) {
  emit_scatter(s, s.operand("src"), text_argument(node, "reduce"),
               node.bool_or("include_self", true));
}

// Reduces the slices of `source` along a dimension into the slices that `index` names.
void import_index_reduce(Steps& s, const Node& node) {
  const int x = s.operand("self"), source = s.operand("source");
  if (s.rank(x) == 0 || s.rank(source) != s.rank(x))
    return s.refuse("of tensors without dimensions or of other ranks");
  const int64_t dim = static_cast<int64_t>(s.dim_of(x, node.int_or("dim", 0)));
  Sizes wide(std::vector<SizeExpr>(s.rank(x), 1));
  wide[static_cast<size_t>(dim)] = s.sizes(source)[static_cast<size_t>(dim)];
  const int index = s.expand(s.reshape(s.operand("index"), wide), s.sizes(source));
  s.give(s.op("scatter", {x, index, s.cast(source, s.dtype(x))}, s.sizes(x), s.dtype(x),
              {{attr::kDim, dim},
               {attr::kReduce, text_argument(node, "reduce")},
               {attr::kIncludeSelf, node.bool_or("include_self", true)}}));
}

// The number of boundaries (ascending) below x (right: not above x).
void import_bucketize(Steps& s, const Node& node) {
  const int x = s.operand({"self", "input"}), boundaries = s.operand("boundaries");
  const int wide = s.unsqueeze(x, static_cast<int64_t>(s.rank(x)));
  const int below = s.compare(node.bool_or("right", false) ? "ge" : "gt", wide, boundaries);
  s.give(s.reduce("sum", below, {-1}, false, DType::kInt64));
}

// The index that bags skip; -1: none. For the public op a negative index counts from the end of the
// table; for the private ops a negative index means none.
int64_t padding_row(Steps& s, const Node& node, int table) {
  const int64_t given = node.int_or("padding_idx", -1);
  if (given >= 0 || !node.is("aten.embedding_bag") || !is_given(node, "padding_idx"))
    return std::max<int64_t>(given, -1);
  const std::optional<int64_t> rows = s.fixed_size(table, 0);
  return rows ? given + *rows : -1;
}

void import_embedding_bag(Steps& s, const Node& node) {
  for (size_t i = 1; i < node.outputs().size(); ++i)
    if (!node.outputs()[i]->is_unused()) return s.refuse("whose offsets or sizes of bags are used");
  static const char* const kModes[] = {"sum", "mean", "max"};
  Attributes attributes;
  attributes[attr::kMode] = std::string(kModes[std::clamp<int64_t>(node.int_or("mode", 0), 0, 2)]);
  attributes[attr::kPaddingIdx] = padding_row(s, node, s.operand("weight"));
  attributes[attr::kIncludeLastOffset] = node.bool_or("include_last_offset", false);
  s.emit_value(node.outputs().front(), "embedding_bag",
               {s.operand("weight"), s.operand("indices"), s.operand("offsets"),
                s.operand("per_sample_weights")},
               std::move(attributes));
}

void import_one_hot(Steps& s, const Node& node) {
  const int x = s.operand("self");
  const Value* value = node.outputs().front();
  const Sizes sizes = s.sizes_of(*value);
  if (!sizes.back().is_number()) return s.refuse("of a number of classes not fixed");
  // Scatters ones into zeros, because scatter checks the classes.
  const int64_t last = static_cast<int64_t>(s.rank(x));
  const int at = s.unsqueeze(x, last);
  const int zeros = s.expand(s.indices({0}, std::vector<int64_t>(s.rank(at), 1)), sizes);
  const int ones = s.expand(s.indices({1}, std::vector<int64_t>(s.rank(at), 1)), s.sizes(at));
  s.give(
      s.op("scatter", {zeros, at, ones}, sizes, DType::kInt64,
           {{attr::kDim, last}, {attr::kReduce, std::string("none")}, {attr::kIncludeSelf, true}}));
}

// Counts the elements in each of `bins` equal parts of [min, max]. An element at max counts into
// the last bin, as in ATen; elements outside are left out.
void import_histc(Steps& s, const Node& node) {
  const int x = s.flatten(s.self());
  const int64_t bins = node.int_or("bins", 100);
  const double least = node.float_or("min", 0), most = node.float_or("max", 0);
  if (least == most) return s.refuse("over the range of its input; give min and max");
  const int low = s.number(least, x), high = s.number(most, x), range = s.sub(high, low);
  const int is_inside =
      s.binary("logical_and", s.compare("ge", x, low), s.compare("le", x, high), DType::kBool);
  const int steps = s.div(s.mul(s.sub(x, low), s.number(static_cast<double>(bins), x)), range);
  const int inside = s.where(is_inside, steps, s.number(0, x));
  const int bin =
      s.cast(s.clamp(s.unary("floor", inside), 0, static_cast<double>(bins - 1)), DType::kInt64);
  s.give(s.op(
      "scatter", {s.filled(s.dtype(x), {bins}, 0), bin, s.cast(is_inside, s.dtype(x))},
      {SizeExpr(bins)}, s.dtype(x),
      {{attr::kDim, int64_t{0}}, {attr::kReduce, std::string("sum")}, {attr::kIncludeSelf, true}}));
}

constexpr ImportRow kIndexingRows[] = {
    {"aten.histc", import_histc},
    {"aten.gather", import_gather},
    {"aten.take_along_dim", import_take_along_dim},
    {"aten.index", import_index},
    {"aten._unsafe_index", import_index},
    {"aten.index_select", import_index_select},
    {"aten.index_put", import_index_put},
    {"aten._unsafe_index_put", import_index_put},
    {"aten.index_copy", import_index_copy},
    {"aten.index_fill", import_index_fill},
    {"aten.index_add", import_index_add},
    {"aten.index_reduce", import_index_reduce},
    {"aten.masked_scatter", import_masked_scatter},
    {"aten.take", import_take},
    {"aten.put", import_put},
    {"aten.scatter", import_scatter},
    {"aten.scatter_add", import_scatter_add},
    {"aten.scatter_reduce", import_scatter_reduce},
    {"aten.bucketize", import_bucketize},
    {"aten.embedding_bag", import_embedding_bag},
    {"aten._embedding_bag", import_embedding_bag},
    {"aten._embedding_bag_forward_only", import_embedding_bag},
    {"aten.one_hot", import_one_hot},
};

}  // namespace

std::vector<Value*> index_values(const Node& node) {
  const Argument* given = node.find_argument("indices");
  if (given == nullptr) return {};
  if (const OptionalTensors* optional = given->find<OptionalTensors>()) return optional->items;
  const auto* list = given->find<std::vector<Value*>>();
  return list == nullptr ? std::vector<Value*>() : *list;
}

std::span<const ImportRow> indexing_import_rows() { return kIndexingRows; }

}  // namespace octet

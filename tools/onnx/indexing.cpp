// Elements chosen and written by tensors of indices; order and positions of elements.
#include <algorithm>
#include <numeric>

#include "tools/onnx/steps.h"

namespace octet {
namespace {

OnnxAttributes axis_of(OnnxSteps& s, const Value* value, int64_t fallback) {
  return {{"axis", static_cast<int64_t>(s.dim_of(value, s.node.int_or("dim", fallback)))}};
}

void convert_embedding(OnnxSteps& s) {
  s.give(s.op("Gather", {s.input("weight"), s.input("indices")}));
}
void convert_index_select(OnnxSteps& s) {
  s.give(s.op("Gather", {s.x(), s.input("index")}, axis_of(s, s.self(), 0)));
}
void convert_gather(OnnxSteps& s) {
  s.give(s.op("GatherElements", {s.x(), s.input("index")}, axis_of(s, s.self(), 0)));
}

// ---- index

// Dimensions that have an index tensor, and these.
struct Indices {
  std::vector<size_t> dims;
  std::vector<Value*> values;
};

std::optional<Indices> indices_of(OnnxSteps& s) {
  Indices found;
  const std::vector<Value*> all = s.list("indices");
  for (size_t d = 0; d < all.size(); ++d) {
    if (all[d] == nullptr) continue;
    if (s.dtype(all[d]) == DType::kBool) {
      s.refuse("by a mask of booleans, whose result has no size of its own");
      return std::nullopt;
    }
    found.dims.push_back(d);
    found.values.push_back(all[d]);
  }
  return found;
}

size_t greatest_rank(const Indices& indices) {
  size_t rank = 0;
  for (const Value* value : indices.values) rank = std::max(rank, OnnxSteps::rank(value));
  return rank;
}

// Index tuples: the tensors side by side in a new last dimension, all of one shape.
std::string tuples(OnnxSteps& s, const Indices& indices) {
  std::string shape;
  if (indices.values.size() > 1) {
    std::string sum;
    for (Value* value : indices.values) {
      const std::string index = s.cast(value, DType::kInt64);
      sum = sum.empty() ? index : s.add(sum, index);
    }
    shape = s.shape(sum);
  }
  Names parts;
  for (Value* value : indices.values) {
    std::string index = s.cast(value, DType::kInt64);
    if (!shape.empty()) index = s.op("Expand", {index, shape});
    parts.push_back(s.unsqueeze(index, {-1}));
  }
  if (parts.size() == 1) return parts[0];
  return s.op("Concat", parts, {{"axis", int64_t{-1}}});
}

// The indexed dimensions in front.
std::vector<int64_t> indexed_first(const Indices& indices, size_t rank) {
  std::vector<int64_t> order(indices.dims.begin(), indices.dims.end());
  for (size_t d = 0; d < rank; ++d)
    if (std::find(indices.dims.begin(), indices.dims.end(), d) == indices.dims.end())
      order.push_back(static_cast<int64_t>(d));
  return order;
}

bool are_neighbours(const std::vector<size_t>& dims) {
  return dims.back() - dims.front() + 1 == dims.size();
}

void convert_index(OnnxSteps& s) {
  const std::optional<Indices> indices = indices_of(s);
  if (!indices) return;
  if (indices->dims.empty()) return s.give(s.x());
  if (indices->dims.size() == 1)
    return s.give(s.op("Gather", {s.x(), s.cast(indices->values[0], DType::kInt64)},
                       {{"axis", static_cast<int64_t>(indices->dims[0])}}));
  const size_t rank = s.rank(s.self()), front = indices->dims.front();
  const std::vector<int64_t> order = indexed_first(*indices, rank);
  std::string x = s.x();
  if (!std::is_sorted(order.begin(), order.end())) x = s.transpose(x, order);
  x = s.op("GatherND", {x, tuples(s, *indices)});
  // The result's dimensions of the indices stand where those of neighbours stood.
  if (front > 0 && are_neighbours(indices->dims)) {
    const size_t taken = greatest_rank(*indices), rest = rank - indices->dims.size();
    std::vector<int64_t> back;
    for (size_t d = 0; d < front; ++d) back.push_back(static_cast<int64_t>(taken + d));
    for (size_t d = 0; d < taken; ++d) back.push_back(static_cast<int64_t>(d));
    for (size_t d = front; d < rest; ++d) back.push_back(static_cast<int64_t>(taken + d));
    x = s.transpose(x, back);
  }
  s.give(x);
}

void convert_index_put(OnnxSteps& s) {
  const std::vector<Value*> all = s.list("indices");
  const DType dtype = s.dtype(s.result());
  const bool is_mask = all.size() == 1 && all[0] != nullptr && s.dtype(all[0]) == DType::kBool;
  Value* values = s.value({"values"});
  if (is_mask && !s.node.bool_or("accumulate", false)) {
    if (s.rank(values) != 0) return s.refuse("of several values by a mask of booleans");
    std::vector<int64_t> axes;
    for (size_t d = s.rank(all[0]); d < s.rank(s.self()); ++d)
      axes.push_back(static_cast<int64_t>(d));
    const std::string mask = s.unsqueeze(s.exporter.name_of(all[0]), axes);
    return s.give(s.op("Where", {mask, s.cast(values, dtype), s.x()}));
  }
  const std::optional<Indices> indices = indices_of(s);
  if (!indices) return;
  if (indices->dims.empty() || indices->dims.back() + 1 != indices->dims.size())
    return s.refuse("along dimensions behind others");
  const std::string places = tuples(s, *indices);
  // Values take the shape of what the places name.
  const std::string chosen = s.op("GatherND", {s.x(), places});
  const std::string updates = s.op("Expand", {s.cast(values, dtype), s.shape(chosen)});
  s.give(s.op("ScatterND", {s.x(), places, updates},
              {{"reduction", std::string(s.node.bool_or("accumulate", false) ? "add" : "none")}}));
}

// ---- scatter

void give_scattered(OnnxSteps& s, const std::string& source, const std::string& reduction) {
  if ((reduction == "max" || reduction == "min") &&
      !s.exporter.need(s.node, 18, "the greatest or least of what is scattered"))
    return;
  OnnxAttributes attributes = axis_of(s, s.self(), 0);
  attributes.emplace_back("reduction", reduction);
  s.give(s.op("ScatterElements", {s.x(), s.input("index"), source}, std::move(attributes)));
}

void convert_scatter(OnnxSteps& s) {
  const std::string reduce = s.text("reduce");
  const std::string reduction = reduce == "add" ? "add" : reduce == "multiply" ? "mul" : "none";
  const DType dtype = s.dtype(s.result());
  if (s.has("src")) return give_scattered(s, s.operand("src", dtype), reduction);
  const std::string value = s.operand("value", dtype);
  give_scattered(s, s.op("Expand", {value, s.shape(s.input("index"))}), reduction);
}
void convert_scatter_add(OnnxSteps& s) { give_scattered(s, s.input("src"), "add"); }
void convert_scatter_reduce(OnnxSteps& s) {
  const std::string reduce = s.text("reduce");
  const std::string reduction = reduce == "sum"    ? "add"
                                : reduce == "prod" ? "mul"
                                : reduce == "amax" ? "max"
                                : reduce == "amin" ? "min"
                                                   : "";
  if (reduction.empty() || !s.node.bool_or("include_self", true))
    return s.refuse("by " + reduce + ", or without the tensor itself");
  give_scattered(s, s.input("src"), reduction);
}

// ---- order

void give_top(OnnxSteps& s, const std::string& count, bool is_largest) {
  OnnxAttributes attributes = axis_of(s, s.self(), -1);
  attributes.emplace_back("largest", int64_t{is_largest});
  attributes.emplace_back("sorted", int64_t{1});
  const Names both = s.ops("TopK", 2, {s.x(), count}, std::move(attributes));
  const std::vector<Value*> results = s.node.outputs();
  s.give(results.front(), both[results.size() == 1 ? 1 : 0]);
  if (results.size() > 1) s.give(results[1], both[1]);
}
void convert_topk(OnnxSteps& s) { give_top(s, s.size("k", 1), s.node.bool_or("largest", true)); }
// sort, and argsort, which gives the places alone.
void convert_sort(OnnxSteps& s) {
  if (s.rank(s.self()) == 0) return s.refuse("of a tensor without dimensions");
  const std::string count = s.shape(s.x(), s.dim_of(s.self(), s.node.int_or("dim", -1)));
  give_top(s, count, s.node.bool_or("descending", false));
}

void give_place(OnnxSteps& s, const char* type) {
  const bool has_dim = s.has("dim");
  const std::string x = has_dim ? s.x() : s.reshape(s.x(), {-1});
  const int64_t axis =
      has_dim ? static_cast<int64_t>(s.dim_of(s.self(), s.node.int_or("dim", 0))) : 0;
  s.give(
      s.op(type, {x},
           {{"axis", axis}, {"keepdims", int64_t{has_dim && s.node.bool_or("keepdim", false)}}}));
  if (!has_dim && s.rank(s.result()) == 0) {
    const std::string flat = s.exporter.name_of(s.result());
    s.give(s.squeeze(flat, {}));
  }
}
void convert_argmax(OnnxSteps& s) { give_place(s, "ArgMax"); }
void convert_argmin(OnnxSteps& s) { give_place(s, "ArgMin"); }

void convert_cumsum(OnnxSteps& s) {
  const std::string axis =
      s.number(static_cast<double>(s.dim_of(s.self(), s.node.int_or("dim", 0))), DType::kInt64);
  s.give(s.op("CumSum", {s.cast(s.self(), s.dtype(s.result())), axis}));
}

void convert_one_hot(OnnxSteps& s) {
  const std::optional<int64_t> classes = s.fixed_size(s.result(), s.rank(s.result()) - 1);
  if (!classes) return;
  s.give(s.op("OneHot", {s.x(), s.ints({*classes}), s.ints({0, 1})}, {{"axis", int64_t{-1}}}));
}

// How many of the ascending boundaries are below x (right: not above it).
void convert_bucketize(OnnxSteps& s) {
  const std::string x = s.cast(s.self(), s.dtype(s.value({"boundaries"})));
  const char* type = s.node.bool_or("right", false) ? "GreaterOrEqual" : "Greater";
  const std::string below = s.op(type, {s.unsqueeze(x, {-1}), s.input("boundaries")});
  s.give(s.reduce("ReduceSum", s.cast(below, DType::kInt64), {-1}, false));
}

constexpr OnnxRow kIndexingRows[] = {
    {"aten.embedding", convert_embedding},
    {"aten.index_select", convert_index_select},
    {"aten.gather", convert_gather},
    {"aten.index", convert_index},
    {"aten._unsafe_index", convert_index},
    {"aten.index_put", convert_index_put},
    {"aten._unsafe_index_put", convert_index_put},
    {"aten.scatter", convert_scatter},
    {"aten.scatter_add", convert_scatter_add},
    {"aten.scatter_reduce", convert_scatter_reduce},
    {"aten.topk", convert_topk},
    {"aten.sort", convert_sort},
    {"aten.argsort", convert_sort},
    {"aten.argmax", convert_argmax},
    {"aten.argmin", convert_argmin},
    {"aten.cumsum", convert_cumsum},
    {"aten.one_hot", convert_one_hot},
    {"aten.bucketize", convert_bucketize},
};

}  // namespace

std::span<const OnnxRow> indexing_onnx_rows() { return kIndexingRows; }

}  // namespace octet

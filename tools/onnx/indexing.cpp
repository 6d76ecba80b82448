// Writes ops that move elements: reshape, reorder, select, join and repeat them, read and write
// them by tensors of indices, and sort them.
#include <algorithm>
#include <limits>

#include "tools/onnx/steps.h"

namespace octet {
namespace {

void write_copy(OnnxSteps& s) { s.give(s.x()); }

// Writes a slice of one element and the reshape that drops its dimension as one node; false for
// other reshapes.
bool give_selected(OnnxSteps& s) {
  const ProgramOp* slice = s.producer(0, "slice");
  if (slice == nullptr) return false;
  OnnxSteps front(s.writer, *slice);
  const auto dim = static_cast<size_t>(front.dim(front.rank()));
  std::vector<SizeExpr> sizes = sizes_of(s.in());
  if (!(sizes[dim] == SizeExpr(1))) return false;
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  if (sizes != sizes_of(s.out())) return false;
  const SizeExpr start = front.size_attribute(attr::kStart);
  const std::string index = start.is_number()
                                ? s.number(static_cast<double>(start.number()), DType::kInt64)
                                : s.squeeze(s.size(start), {0});
  s.give(s.op("Gather", {front.x(), index}, {{"axis", static_cast<int64_t>(dim)}}));
  return true;
}

void write_reshape(OnnxSteps& s) {
  if (!give_selected(s)) s.give(s.reshaped(s.x(), s.in(), s.out()));
}

void write_permute(OnnxSteps& s) { s.give(s.transpose(s.x(), s.dims())); }

// torch ignores tensors of shape [0].
void write_cat(OnnxSteps& s) {
  Names parts;
  for (size_t i = 0; i < s.source.inputs.size(); ++i) {
    const bool is_nothing = s.in(i).shape == std::vector<int64_t>{0} && s.in(i).sizes.empty() &&
                            s.out().shape.size() != 1;
    if (!is_nothing) parts.push_back(s.x(i, s.dtype()));
  }
  s.give(s.concat(std::move(parts), s.dim(s.out().shape.size())));
}

void write_slice(OnnxSteps& s) {
  const int64_t dim = s.dim(s.rank()), step = s.source.get(attr::kStep);
  const SizeExpr start = s.size_attribute(attr::kStart),
                 size = sizes_of(s.out())[static_cast<size_t>(dim)];
  if (start == SizeExpr(0) && step == 1 && size == sizes_of(s.in())[static_cast<size_t>(dim)])
    return s.give(s.x());
  s.give(s.slice(s.x(), s.size(start), s.size(start + size * SizeExpr(step)), dim, step));
}

void write_expand(OnnxSteps& s) {
  const std::string x = s.x(0, s.dtype());
  const bool is_same = sizes_of(s.in()) == sizes_of(s.out());
  s.give(is_same ? x : s.op("Expand", {x, s.sizes(sizes_of(s.out()))}));
}

void write_flip(OnnxSteps& s) {
  const std::vector<int64_t> dims = s.dims();
  const std::vector<int64_t> starts(dims.size(), -1), steps(dims.size(), -1);
  const std::vector<int64_t> ends(dims.size(), std::numeric_limits<int64_t>::min());
  s.give(s.op("Slice", {s.x(), s.ints(starts), s.ints(ends), s.ints(dims), s.ints(steps)}));
}

// ONNX lists the padding of all beginnings, then of all ends.
void write_pad(OnnxSteps& s) {
  if (s.source.sizes.contains("pads")) return s.refuse("by numbers that are not fixed");
  const std::vector<int64_t> given = s.source.get(attr::kPads);
  std::vector<int64_t> pads(given.size());
  for (size_t i = 0; i < given.size(); ++i) pads[i / 2 + i % 2 * (given.size() / 2)] = given[i];
  s.give(s.op("Pad", {s.x(), s.ints(pads), s.number(s.source.get(attr::kValue))},
              {{"mode", std::string("constant")}}));
}

void write_size(OnnxSteps& s) {
  s.give(s.squeeze(s.size(s.size_attribute(attr::kSizeValue)), {0}));
}

OnnxAttributes axis_of(const OnnxSteps& s) { return {{"axis", s.dim(s.rank())}}; }

void write_embedding(OnnxSteps& s) { s.give(s.op("Gather", {s.x(0), s.x(1)})); }

// Supports bags of equal length: rows of indices.
void write_embedding_bag(OnnxSteps& s) {
  if (s.has(2)) return s.refuse("with offsets");
  if (s.source.get(attr::kPaddingIdx) >= 0) return s.refuse("with a padding_idx");
  std::string rows = s.op("Gather", {s.x(0), s.x(1)});
  if (s.has(3)) rows = s.mul(rows, s.unsqueeze(s.x(3), {-1}));
  const std::string mode = s.source.get(attr::kMode);
  const char* type = mode == "mean" ? "ReduceMean" : mode == "max" ? "ReduceMax" : "ReduceSum";
  s.give(s.reduce(type, rows, {1}, false));
}

void write_gather(OnnxSteps& s) { s.give(s.op("GatherElements", {s.x(0), s.x(1)}, axis_of(s))); }

// ---- index and index_put

// The dimensions that have an index tensor, and the position of the indices' dimensions in the
// result.
struct Indexed {
  size_t first;                // the op's input that indexes dimension 0
  std::vector<size_t> dims;    // ascending
  std::vector<int64_t> order;  // permutes x: the indexed dimensions first
  std::vector<int64_t> back;   // permutes the result to torch's order
};

Indexed indexed_of(const OnnxSteps& s, size_t first) {
  Indexed indexed{first, {}, {}, {}};
  size_t taken = 0;
  for (size_t i = first; i < s.source.inputs.size(); ++i) {
    if (!s.has(i)) continue;
    indexed.dims.push_back(i - first);
    taken = std::max(taken, s.rank(i));
  }
  const std::vector<size_t>& dims = indexed.dims;
  indexed.order.assign(dims.begin(), dims.end());
  for (size_t d = 0; d < s.rank(); ++d)
    if (std::ranges::find(dims, d) == dims.end()) indexed.order.push_back(static_cast<int64_t>(d));
  const std::vector<int64_t> chosen = counted(taken + s.rank() - dims.size());
  indexed.back = chosen;
  const bool are_neighbors = dims.back() - dims.front() + 1 == dims.size();
  if (are_neighbors)  // torch puts them in the place of the indexed dimensions
    std::rotate(indexed.back.begin(), indexed.back.begin() + static_cast<std::ptrdiff_t>(taken),
                indexed.back.begin() + static_cast<std::ptrdiff_t>(taken + dims.front()));
  return indexed;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& dims) {
  std::vector<int64_t> result(dims.size());
  for (size_t d = 0; d < dims.size(); ++d)
    result[static_cast<size_t>(dims[d])] = static_cast<int64_t>(d);
  return result;
}

// Index tuples: broadcasts the tensors to one shape and stacks them in a new last dimension.
std::string tuples(OnnxSteps& s, const Indexed& indexed) {
  Names indices, parts;
  for (size_t dim : indexed.dims) indices.push_back(s.x(indexed.first + dim, DType::kInt64));
  std::string sum = indices[0];
  for (size_t i = 1; i < indices.size(); ++i) sum = s.add(sum, indices[i]);
  const std::string shape = indices.size() > 1 ? s.shape(sum) : "";
  for (const std::string& index : indices)
    parts.push_back(s.unsqueeze(shape.empty() ? index : s.op("Expand", {index, shape}), {-1}));
  return s.concat(parts, -1);
}

void write_index(OnnxSteps& s) {
  const Indexed indexed = indexed_of(s, 1);
  if (indexed.dims.size() == 1)
    return s.give(s.op("Gather", {s.x(), s.x(1 + indexed.dims[0], DType::kInt64)},
                       {{"axis", static_cast<int64_t>(indexed.dims[0])}}));
  const std::string x = s.transpose(s.x(), indexed.order);
  s.give(s.transpose(s.op("GatherND", {x, tuples(s, indexed)}), indexed.back));
}

void write_index_put(OnnxSteps& s) {
  const Indexed indexed = indexed_of(s, 2);
  const std::string x = s.transpose(s.x(), indexed.order), places = tuples(s, indexed);
  // Expands the values to the shape of the indexed elements.
  const std::string chosen = s.transpose(s.op("GatherND", {x, places}), indexed.back);
  const std::string values = s.op("Expand", {s.x(1, s.dtype()), s.shape(chosen)});
  const bool accumulates = s.source.get(attr::kAccumulate);
  const std::string y = s.op("ScatterND", {x, places, s.transpose(values, inverse(indexed.back))},
                             {{"reduction", std::string(accumulates ? "add" : "none")}});
  s.give(s.transpose(y, inverse(indexed.order)));
}

void write_scatter(OnnxSteps& s) {
  const std::string reduce = s.source.get(attr::kReduce);
  const char* reduction = reduce == "none"   ? "none"
                          : reduce == "sum"  ? "add"
                          : reduce == "prod" ? "mul"
                          : reduce == "amax" ? "max"
                          : reduce == "amin" ? "min"
                                             : "";
  if (*reduction == '\0' || (reduce != "none" && !s.source.get(attr::kIncludeSelf)))
    return s.refuse("by " + reduce + ", or without the tensor itself");
  if (reduce.starts_with("am") && !s.need(18, "the greatest or least of what is scattered")) return;
  std::string values = s.x(2, s.dtype());
  if (s.rank(2) == 0 && s.rank(1) > 0) values = s.op("Expand", {values, s.shape(s.x(1))});
  OnnxAttributes attributes = axis_of(s);
  attributes.emplace_back("reduction", std::string(reduction));
  s.give(s.op("ScatterElements", {s.x(), s.x(1), values}, std::move(attributes)));
}

// ---- order

void give_top(OnnxSteps& s, const std::string& count, bool is_largest) {
  OnnxAttributes attributes = axis_of(s);
  attributes.emplace_back("largest", int64_t{is_largest});
  attributes.emplace_back("sorted", int64_t{1});
  const Names both = s.ops("TopK", 2, {s.x(), count}, std::move(attributes));
  for (size_t i = 0; i < s.source.outputs.size(); ++i) s.give(i, both[i]);
}
void write_topk(OnnxSteps& s) {
  give_top(s, s.size(s.size_attribute(attr::kK)), s.source.get(attr::kLargest));
}
void write_sort(OnnxSteps& s) {
  const size_t dim = static_cast<size_t>(s.dim(s.rank()));
  if (s.rank() == 0) return s.refuse("of a tensor without dimensions");
  give_top(s, s.size(sizes_of(s.in())[dim]), s.source.get(attr::kDescending));
}

void write_arg_reduce(OnnxSteps& s) {
  const bool has_dim = s.source.has(attr::kDim), keeps = has_dim && s.source.get(attr::kKeepdim);
  const char* type = s.source.get(attr::kFn) == "argmax" ? "ArgMax" : "ArgMin";
  const std::string x = has_dim && s.rank() > 0 ? s.x() : s.reshape(s.x(), {-1});
  const std::string y =
      s.op(type, {x},
           {{"axis", has_dim ? s.dim(s.rank()) : 0}, {"keepdims", int64_t{keeps && s.rank() > 0}}});
  s.give(!has_dim && !s.out().shape.empty() ? s.reshape(y, s.out().shape) : y);
}

void write_cumulative(OnnxSteps& s) {
  if (s.source.get(attr::kFn) != "sum") return s.refuse("");
  const int64_t dim = s.dim(s.rank());
  if (s.rank() == 0) return s.give(s.x(0, s.dtype()));
  s.give(s.op("CumSum", {s.x(0, s.dtype()), s.number(static_cast<double>(dim), DType::kInt64)}));
}

// Row indices, padded with zeros to as many rows as x has elements.
void write_nonzero(OnnxSteps& s) {
  const std::string places = s.transpose(s.op("NonZero", {s.x(0, DType::kBool)}), {1, 0});
  const std::string count = s.shape(places, 0);
  s.give(1, s.squeeze(count, {0}));
  const std::string missing = s.sub(s.size(sizes_of(s.out())[0]), count);
  s.give(s.op("Pad", {places, s.concat({s.ints({0, 0}), missing, s.ints({0})}, 0)}));
}

constexpr OnnxRow kIndexingRows[] = {
    {"copy", write_copy},
    {"reshape", write_reshape},
    {"permute", write_permute},
    {"cat", write_cat},
    {"slice", write_slice},
    {"expand", write_expand},
    {"flip", write_flip},
    {"pad", write_pad},
    {"size", write_size},
    {"embedding", write_embedding},
    {"embedding_bag", write_embedding_bag},
    {"gather", write_gather},
    {"index", write_index},
    {"index_put", write_index_put},
    {"scatter", write_scatter},
    {"topk", write_topk},
    {"sort", write_sort},
    {"arg_reduce", write_arg_reduce},
    {"cumulative", write_cumulative},
    {"nonzero", write_nonzero},
};

}  // namespace

std::span<const OnnxRow> indexing_onnx_rows() { return kIndexingRows; }

}  // namespace octet

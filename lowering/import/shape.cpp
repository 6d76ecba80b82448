// Imports views, copies, data movement, and constants that the graph makes.
#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

int self_of(Steps& s, const Node& node) {
  return s.input(node.find_argument("self") != nullptr ? "self" : "input");
}

// ---- the same elements in the same order

void import_reshape(Steps& s, const Node& node) { s.emit("reshape", {self_of(s, node)}); }

// aten.view.dtype reinterprets the bytes: integers of equal width wrap.
void import_view(Steps& s, const Node& node) {
  const int x = self_of(s, node);
  const DType from = s.tensor(x).dtype;
  const Value* value = node.outputs().front();
  const DType to = value->meta ? value->meta->dtype : from;
  if (from == to) return import_reshape(s, node);
  if (!is_integer(from) || !is_integer(to) || size_of(from) != size_of(to))
    return s.refuse("of the bytes of another dtype");
  s.emit("cast", {x});
}

void import_alias(Steps& s, const Node& node) { s.alias(node.outputs().front(), self_of(s, node)); }

void import_dropout(Steps& s, const Node& node) {
  if (node.bool_or("train", false) && node.float_or("p", 0) != 0)
    return s.refuse("in training mode; export in eval mode");
  import_alias(s, node);
}

void import_nothing(Steps&, const Node&) {}

void import_cast(Steps& s, const Node& node) {
  const int x = self_of(s, node);
  const Value* value = node.outputs().front();
  s.sizes_of(*value);
  value->meta->dtype == s.tensor(x).dtype ? import_alias(s, node)
                                          : static_cast<void>(s.emit("cast", {x}));
}

// ---- the same elements in another order

void import_permute(Steps& s, const Node& node) {
  std::vector<int64_t> dims = node.ints_or("dims", {});
  for (int64_t& dim : dims) dim = positive_dim(dim, dims.size());
  s.emit("permute", {s.input("self")}, {{attr::kDims, dims}});
}

void import_transpose(Steps& s, const Node& node) {
  const size_t rank = s.input_shape("self").size();
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  if (rank >= 2)
    std::swap(dims[static_cast<size_t>(positive_dim(node.int_or("dim0", 0), rank))],
              dims[static_cast<size_t>(positive_dim(node.int_or("dim1", 1), rank))]);
  s.emit("permute", {s.input("self")}, {{attr::kDims, dims}});
}

// [N, C*r*r, H, W] -> [N, C, H*r, W*r]
void import_pixel_shuffle(Steps& s, const Node& node) {
  const int x = s.input("self");
  const Sizes in = s.sizes(x);
  const DType dtype = s.tensor(x).dtype;
  const int64_t r = node.int_or("upscale_factor", 1);
  if (in.size() != 4) return s.refuse("of an input that does not have 4 dimensions");
  const SizeExpr channels = floor_divide(in[1], r * r);
  const int split =
      s.op("reshape", {x}, {in[0], channels, SizeExpr(r), SizeExpr(r), in[2], in[3]}, dtype);
  const int moved =
      s.op("permute", {split}, {in[0], channels, in[2], SizeExpr(r), in[3], SizeExpr(r)}, dtype,
           {{attr::kDims, std::vector<int64_t>{0, 1, 4, 2, 5, 3}}});
  s.emit("reshape", {moved});
}

// ---- some of the elements

void emit_slice(Steps& s, Value* value, int x, int64_t dim, const SizeExpr& start,
                int64_t step = 1) {
  s.emit_value(value, "slice", {x}, {{attr::kDim, dim}, {attr::kStep, step}});
  s.set_size("start", start);
}

// Clamps a start to [0, size]. A symbolic start is used unchanged if it cannot be negative.
SizeExpr clamped_index(const SizeExpr& index, const SizeExpr& size) {
  if (index.is_number() && size.is_number())
    return std::clamp<int64_t>(index.number() < 0 ? index.number() + size.number() : index.number(),
                               0, size.number());
  if (index.is_number() && index.number() < 0) return maximum(size + index, 0);
  return index.is_number() && index.number() == 0 ? index : minimum(index, size);
}

void import_slice(Steps& s, const Node& node) {
  const int x = s.input("self");
  const Sizes shape = s.sizes(x);
  const int64_t dim = positive_dim(node.int_or("dim", 0), shape.size());
  emit_slice(s, node.outputs().front(), x, dim,
             clamped_index(s.size_argument(node, "start", 0), shape[static_cast<size_t>(dim)]),
             node.int_or("step", 1));
}

void import_narrow(Steps& s, const Node& node) {
  const int x = s.input("self");
  const Sizes shape = s.sizes(x);
  const int64_t dim = positive_dim(node.int_or("dim", 0), shape.size());
  emit_slice(s, node.outputs().front(), x, dim,
             clamped_index(s.size_argument(node, "start", 0), shape[static_cast<size_t>(dim)]));
}

// x[i] where i is only known at run time.
void select_by_number(Steps& s, int x, size_t dim, Value* index) {
  std::vector<int> inputs = {x};
  inputs.resize(1 + dim, -1);
  inputs.push_back(s.number_of(index));
  s.emit("index", std::move(inputs));
}

void import_select(Steps& s, const Node& node) {
  const int x = s.input("self");
  Sizes shape = s.sizes(x);
  const int64_t dim = positive_dim(node.int_or("dim", 0), shape.size());
  if (Value* index = node.find_input("index");
      index != nullptr && !s.size_table().has_formula(*index))
    return select_by_number(s, x, static_cast<size_t>(dim), index);
  const SizeExpr index = s.size_argument(node, "index", 0);
  const bool counts_from_end = index.is_number() && index.number() < 0;
  const SizeExpr start = counts_from_end ? shape[static_cast<size_t>(dim)] + index : index;
  shape[static_cast<size_t>(dim)] = 1;
  const DType dtype = s.tensor(x).dtype;
  const int taken =
      s.op("slice", {x}, shape, dtype, {{attr::kDim, dim}, {attr::kStep, int64_t{1}}});
  s.set_size("start", start);
  s.emit("reshape", {taken});
}

// split, split_with_sizes, chunk: results follow each other, with their recorded sizes.
void import_split(Steps& s, const Node& node) {
  const int x = s.input("self");
  const int64_t dim = positive_dim(node.int_or("dim", 0), s.tensor(x).shape.size());
  SizeExpr start = 0;
  for (Value* value : node.outputs()) {
    emit_slice(s, value, x, dim, start);
    start = start + s.sizes_of(*value)[static_cast<size_t>(dim)];
  }
}

void import_unbind(Steps& s, const Node& node) {
  const int x = s.input("self");
  Sizes shape = s.sizes(x);
  const DType dtype = s.tensor(x).dtype;
  const int64_t dim = positive_dim(node.int_or("dim", 0), shape.size());
  shape[static_cast<size_t>(dim)] = 1;
  int64_t start = 0;
  for (Value* value : node.outputs()) {
    const int taken = s.op("slice", {x}, shape, dtype,
                           {{attr::kDim, dim}, {attr::kStart, start++}, {attr::kStep, int64_t{1}}});
    s.emit_value(value, "reshape", {taken});
  }
}

void import_embedding(Steps& s, const Node&) {
  s.emit("embedding", {s.input("weight"), s.input("indices")});
}

// ---- more elements

void import_cat(Steps& s, const Node& node) {
  std::vector<int> inputs = s.tensors("tensors");
  // torch skips tensors of shape [0]
  std::erase_if(inputs,
                [&](int index) { return s.tensor(index).shape == std::vector<int64_t>{0}; });
  if (inputs.empty()) inputs = {s.tensors("tensors").front()};
  const size_t rank = s.result_sizes().size();
  s.emit("cat", inputs, {{attr::kDim, positive_dim(node.int_or("dim", 0), rank)}});
}

void import_stack(Steps& s, const Node& node) {
  const size_t rank = s.result_sizes().size();
  const int64_t dim = positive_dim(node.int_or("dim", 0), rank);
  std::vector<int> inputs;
  for (int index : s.tensors("tensors")) {
    Sizes shape = s.sizes(index);
    shape.insert(shape.begin() + dim, 1);
    const DType dtype = s.tensor(index).dtype;
    inputs.push_back(s.op("reshape", {index}, shape, dtype));
  }
  s.emit("cat", inputs, {{attr::kDim, dim}});
}

void import_expand(Steps& s, const Node&) { s.emit("expand", {s.input("self")}); }

void import_pad(Steps& s, const Node& node) {
  const std::string word = text_argument(node, "mode");
  if (!word.empty() && word != "constant") return import_borders(s, node, word);
  const std::vector<int64_t> given = node.ints_or("pad", {});  // last dimension first
  const size_t rank = s.input_shape("self").size();
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i + 1 < given.size() && i / 2 < rank; i += 2) {
    pads[2 * (rank - 1 - i / 2)] = given[i];
    pads[2 * (rank - 1 - i / 2) + 1] = given[i + 1];
  }
  s.emit("pad", {s.input("self")},
         {{attr::kPads, pads}, {attr::kValue, node.float_or("value", 0)}});
}

constexpr ImportRow kShapeRows[] = {
    {"aten.view", import_view},
    {"aten._unsafe_view", import_reshape},
    {"aten.view_copy", import_reshape},
    {"aten.reshape", import_reshape},
    {"aten.flatten", import_reshape},
    {"aten.unflatten", import_reshape},
    {"aten.unsqueeze", import_reshape},
    {"aten.squeeze", import_reshape},
    {"aten.ravel", import_reshape},
    {"aten.view_as", import_reshape},
    {"aten.reshape_as", import_reshape},
    {"aten.atleast_1d", import_reshape},
    {"aten.atleast_2d", import_reshape},
    {"aten.atleast_3d", import_reshape},
    {"aten.positive", import_alias},
    {"aten.resolve_conj", import_alias},
    {"aten.resolve_neg", import_alias},
    {"aten.conj", import_alias},
    {"aten.real", import_alias},
    {"aten.alias", import_alias},
    {"aten.detach", import_alias},
    {"aten.clone", import_alias},
    {"aten.contiguous", import_alias},
    {"aten.lift_fresh_copy", import_alias},
    {"aten.dropout", import_dropout},
    {"aten.feature_dropout", import_dropout},
    {"aten._assert_tensor_metadata", import_nothing},
    {"aten.to", import_cast},
    {"aten._to_copy", import_cast},
    {"aten.type_as", import_cast},
    {"aten.permute", import_permute},
    {"aten.transpose", import_transpose},
    {"aten.t", import_transpose},
    {"aten.pixel_shuffle", import_pixel_shuffle},
    {"aten.slice", import_slice},
    {"aten.narrow", import_narrow},
    {"aten.select", import_select},
    {"aten.split", import_split},
    {"aten.split_with_sizes", import_split},
    {"aten.chunk", import_split},
    {"aten.unsafe_split", import_split},
    {"aten.unsafe_split_with_sizes", import_split},
    {"aten.unsafe_chunk", import_split},
    {"aten.tensor_split", import_split},
    {"aten.unbind", import_unbind},
    {"aten.embedding", import_embedding},
    {"aten.cat", import_cat},
    {"aten.concat", import_cat},
    {"aten.concatenate", import_cat},
    {"aten.stack", import_stack},
    {"aten.expand", import_expand},
    {"aten.expand_as", import_expand},
    {"aten.pad", import_pad},
    {"aten.constant_pad_nd", import_pad},
    {"aten._assert_scalar", import_nothing},
    {"aten.sym_constrain_range", import_nothing},
};

}  // namespace

std::span<const ImportRow> shape_import_rows() { return kShapeRows; }

}  // namespace octet

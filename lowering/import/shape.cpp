// Views, copies and data movement; constants that the graph makes itself.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "core/base/error.h"
#include "lowering/import/importer.h"

namespace octet {
namespace {

int self_of(Importer& importer, const Node& node) {
  return importer.operand(node, node.find_argument("self") != nullptr ? "self" : "input");
}

// ---- the same elements in the same order

void import_reshape(Importer& importer, const Node& node) {
  importer.emit(node, "reshape", {self_of(importer, node)});
}

// aten.view.dtype gives the same bytes: integers of one width wrap into each other.
void import_view(Importer& importer, const Node& node) {
  const int x = self_of(importer, node);
  const DType from = importer.tensor(x).dtype;
  const Value* value = node.outputs().front();
  const DType to = value->meta ? value->meta->dtype : from;
  if (from == to) return import_reshape(importer, node);
  if (!is_integer(from) || !is_integer(to) || size_of(from) != size_of(to))
    return importer.refuse(node, "of the bytes of another dtype");
  importer.emit(node, "cast", {x});
}

void import_alias(Importer& importer, const Node& node) {
  importer.alias(node.outputs().front(), self_of(importer, node));
}

void import_dropout(Importer& importer, const Node& node) {
  if (node.bool_or("train", false) && node.float_or("p", 0) != 0)
    return importer.refuse(node, "in training mode; export in eval mode");
  import_alias(importer, node);
}

void import_nothing(Importer&, const Node&) {}

void import_cast(Importer& importer, const Node& node) {
  const int x = self_of(importer, node);
  const Value* value = node.outputs().front();
  importer.sizes_of(*value);
  value->meta->dtype == importer.tensor(x).dtype
      ? import_alias(importer, node)
      : static_cast<void>(importer.emit(node, "cast", {x}));
}

// ---- the same elements in another order

void import_permute(Importer& importer, const Node& node) {
  std::vector<int64_t> dims = node.ints_or("dims", {});
  for (int64_t& dim : dims) dim = positive_dim(dim, dims.size());
  importer.emit(node, "permute", {importer.operand(node, "self")}, {{"dims", dims}});
}

void import_transpose(Importer& importer, const Node& node) {
  const size_t rank = importer.input_shape(node, "self").size();
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  if (rank >= 2)
    std::swap(dims[static_cast<size_t>(positive_dim(node.int_or("dim0", 0), rank))],
              dims[static_cast<size_t>(positive_dim(node.int_or("dim1", 1), rank))]);
  importer.emit(node, "permute", {importer.operand(node, "self")}, {{"dims", dims}});
}

// [N, C*r*r, H, W] -> [N, C, H*r, W*r]
void import_pixel_shuffle(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "self");
  const Sizes s = importer.sizes(x);
  const DType dtype = importer.tensor(x).dtype;
  const int64_t r = node.int_or("upscale_factor", 1);
  if (s.size() != 4) return importer.refuse(node, "of an input that has not 4 dimensions");
  const SizeExpr channels = floor_divide(s[1], r * r);
  const int split = importer.emit_step(
      node, "reshape", {x}, {s[0], channels, SizeExpr(r), SizeExpr(r), s[2], s[3]}, dtype);
  const int moved = importer.emit_step(node, "permute", {split},
                                       {s[0], channels, s[2], SizeExpr(r), s[3], SizeExpr(r)},
                                       dtype, {{"dims", std::vector<int64_t>{0, 1, 4, 2, 5, 3}}});
  importer.emit(node, "reshape", {moved});
}

// ---- some of the elements

void emit_slice(Importer& importer, const Node& node, Value* value, int x, int64_t dim,
                const SizeExpr& start, int64_t step = 1) {
  importer.emit_value(node, value, "slice", {x}, {{"dim", dim}, {"step", step}});
  importer.set_size("start", start);
}

// A start in [0, size]; one that depends on symbols is taken as it is where it cannot be negative.
SizeExpr clamped_index(const SizeExpr& index, const SizeExpr& size) {
  if (index.is_number() && size.is_number())
    return std::clamp<int64_t>(index.number() < 0 ? index.number() + size.number() : index.number(),
                               0, size.number());
  if (index.is_number() && index.number() < 0) return maximum(size + index, 0);
  return index.is_number() && index.number() == 0 ? index : minimum(index, size);
}

void import_slice(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "self");
  const Sizes shape = importer.sizes(x);
  const int64_t dim = positive_dim(node.int_or("dim", 0), shape.size());
  emit_slice(
      importer, node, node.outputs().front(), x, dim,
      clamped_index(importer.size_argument(node, "start", 0), shape[static_cast<size_t>(dim)]),
      node.int_or("step", 1));
}

void import_narrow(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "self");
  const Sizes shape = importer.sizes(x);
  const int64_t dim = positive_dim(node.int_or("dim", 0), shape.size());
  emit_slice(
      importer, node, node.outputs().front(), x, dim,
      clamped_index(importer.size_argument(node, "start", 0), shape[static_cast<size_t>(dim)]));
}

// x[i] where only the program knows i.
void select_by_number(Importer& importer, const Node& node, int x, size_t dim, Value* index) {
  std::vector<int> inputs = {x};
  inputs.resize(1 + dim, -1);
  inputs.push_back(importer.number_of(node, index));
  importer.emit(node, "index", std::move(inputs));
}

void import_select(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "self");
  Sizes shape = importer.sizes(x);
  const int64_t dim = positive_dim(node.int_or("dim", 0), shape.size());
  if (Value* index = node.find_input("index");
      index != nullptr && !importer.has_size_formula(*index))
    return select_by_number(importer, node, x, static_cast<size_t>(dim), index);
  const SizeExpr index = importer.size_argument(node, "index", 0);
  const bool counts_from_end = index.is_number() && index.number() < 0;
  const SizeExpr start = counts_from_end ? shape[static_cast<size_t>(dim)] + index : index;
  shape[static_cast<size_t>(dim)] = 1;
  const DType dtype = importer.tensor(x).dtype;
  const int taken =
      importer.emit_step(node, "slice", {x}, shape, dtype, {{"dim", dim}, {"step", int64_t{1}}});
  importer.set_size("start", start);
  importer.emit(node, "reshape", {taken});
}

// split, split_with_sizes, chunk: each result follows the one before; its recorded size says how
// long it is.
void import_split(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "self");
  const int64_t dim = positive_dim(node.int_or("dim", 0), importer.tensor(x).shape.size());
  SizeExpr start = 0;
  for (Value* value : node.outputs()) {
    emit_slice(importer, node, value, x, dim, start);
    start = start + importer.sizes_of(*value)[static_cast<size_t>(dim)];
  }
}

void import_unbind(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "self");
  Sizes shape = importer.sizes(x);
  const DType dtype = importer.tensor(x).dtype;
  const int64_t dim = positive_dim(node.int_or("dim", 0), shape.size());
  shape[static_cast<size_t>(dim)] = 1;
  int64_t start = 0;
  for (Value* value : node.outputs()) {
    const int taken = importer.emit_step(node, "slice", {x}, shape, dtype,
                                         {{"dim", dim}, {"start", start++}, {"step", int64_t{1}}});
    importer.emit_value(node, value, "reshape", {taken});
  }
}

void import_embedding(Importer& importer, const Node& node) {
  importer.emit(node, "embedding",
                {importer.operand(node, "weight"), importer.operand(node, "indices")});
}

// ---- more elements

std::vector<int> tensor_list(Importer& importer, const Node& node) {
  std::vector<int> tensors;
  if (const Argument* argument = node.find_argument("tensors"); argument != nullptr)
    for_each_value(*argument, [&](Value* value) { tensors.push_back(importer.tensor_of(value)); });
  return tensors;
}

void import_cat(Importer& importer, const Node& node) {
  std::vector<int> inputs = tensor_list(importer, node);
  // torch skips these
  std::erase_if(inputs,
                [&](int index) { return importer.tensor(index).shape == std::vector<int64_t>{0}; });
  if (inputs.empty()) inputs = {tensor_list(importer, node).front()};
  const size_t rank = importer.sizes_of(*node.outputs().front()).size();
  importer.emit(node, "cat", inputs, {{"dim", positive_dim(node.int_or("dim", 0), rank)}});
}

void import_stack(Importer& importer, const Node& node) {
  const size_t rank = importer.sizes_of(*node.outputs().front()).size();
  const int64_t dim = positive_dim(node.int_or("dim", 0), rank);
  std::vector<int> inputs;
  for (int index : tensor_list(importer, node)) {
    Sizes shape = importer.sizes(index);
    shape.insert(shape.begin() + dim, 1);
    const DType dtype = importer.tensor(index).dtype;
    inputs.push_back(importer.emit_step(node, "reshape", {index}, shape, dtype));
  }
  importer.emit(node, "cat", inputs, {{"dim", dim}});
}

void import_expand(Importer& importer, const Node& node) {
  importer.emit(node, "expand", {importer.operand(node, "self")});
}

void import_pad(Importer& importer, const Node& node) {
  const Argument* mode = node.find_argument("mode");
  const std::string* word = mode == nullptr ? nullptr : mode->find<std::string>();
  if (word != nullptr && *word != "constant") return import_borders(importer, node, *word);
  const std::vector<int64_t> given = node.ints_or("pad", {});  // last dimension first
  const size_t rank = importer.input_shape(node, "self").size();
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i + 1 < given.size() && i / 2 < rank; i += 2) {
    pads[2 * (rank - 1 - i / 2)] = given[i];
    pads[2 * (rank - 1 - i / 2) + 1] = given[i + 1];
  }
  importer.emit(node, "pad", {importer.operand(node, "self")},
                {{"pads", pads}, {"value", node.float_or("value", 0)}});
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

// The same elements in another shape or order; joined and repeated tensors.
#include <algorithm>
#include <numeric>

#include "core/base/shape.h"
#include "tools/onnx/steps.h"

namespace octet {
namespace {

std::vector<int64_t> counted(size_t count) {
  std::vector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

void convert_alias(OnnxSteps& s) { s.give(s.x()); }

void convert_dropout(OnnxSteps& s) {
  if (s.node.bool_or("train", false) && s.node.float_or("p", 0) != 0)
    return s.refuse("in training mode");
  convert_alias(s);
}

void convert_cast(OnnxSteps& s) { s.give(s.cast(s.self(), s.dtype(s.result()))); }

void convert_reshape(OnnxSteps& s) { s.give(s.reshaped(s.x(), s.self(), s.result())); }

void convert_unsqueeze(OnnxSteps& s) {
  const size_t dim = s.dim_of(s.result(), s.node.int_or("dim", 0));
  s.give(s.unsqueeze(s.x(), {static_cast<int64_t>(dim)}));
}

// Dimensions of size 1, all of them or those that are named.
void convert_squeeze(OnnxSteps& s) {
  const std::vector<Dim>& sizes = s.meta(s.self()).sizes;
  std::vector<int64_t> dims = s.node.ints_or("dim", counted(sizes.size())), axes;
  for (int64_t dim : dims) {
    if (sizes.empty()) break;
    const size_t d = s.dim_of(s.self(), dim);
    if (!sizes[d].is_symbolic() && sizes[d].value == 1) axes.push_back(static_cast<int64_t>(d));
  }
  s.give(s.squeeze(s.x(), axes));
}

// ---- order

void give_transposed(OnnxSteps& s, std::vector<int64_t> dims) {
  const bool is_same = std::is_sorted(dims.begin(), dims.end());
  s.give(is_same ? s.x() : s.transpose(s.x(), std::move(dims)));
}
void convert_permute(OnnxSteps& s) {
  std::vector<int64_t> dims = s.node.ints_or("dims", {});
  for (int64_t& dim : dims) dim = static_cast<int64_t>(s.dim_of(s.self(), dim));
  give_transposed(s, std::move(dims));
}
void give_swapped(OnnxSteps& s, int64_t a, int64_t b) {
  std::vector<int64_t> dims = counted(s.rank(s.self()));
  if (!dims.empty()) std::swap(dims[s.dim_of(s.self(), a)], dims[s.dim_of(s.self(), b)]);
  give_transposed(s, std::move(dims));
}
void convert_transpose(OnnxSteps& s) {
  give_swapped(s, s.node.int_or("dim0", s.node.int_or("axis0", 0)),
               s.node.int_or("dim1", s.node.int_or("axis1", 1)));
}
void convert_t(OnnxSteps& s) { s.rank(s.self()) < 2 ? convert_alias(s) : give_swapped(s, -2, -1); }
void convert_numpy_t(OnnxSteps& s) {
  std::vector<int64_t> dims = counted(s.rank(s.self()));
  std::reverse(dims.begin(), dims.end());
  give_transposed(s, std::move(dims));
}
void convert_movedim(OnnxSteps& s) {
  const size_t rank = s.rank(s.self());
  const std::vector<int64_t> from = s.node.ints_or("source", {}),
                             to = s.node.ints_or("destination", {});
  std::vector<int64_t> dims(rank, -1);
  std::vector<bool> is_moved(rank, false);
  for (size_t i = 0; i < from.size(); ++i) {
    dims[s.dim_of(s.self(), to[i])] = static_cast<int64_t>(s.dim_of(s.self(), from[i]));
    is_moved[s.dim_of(s.self(), from[i])] = true;
  }
  size_t next = 0;
  for (int64_t& dim : dims) {
    if (dim >= 0) continue;
    while (is_moved[next]) ++next;
    dim = static_cast<int64_t>(next++);
  }
  give_transposed(s, std::move(dims));
}

// [N, C*r*r, H, W] -> [N, C, H*r, W*r]
void convert_pixel_shuffle(OnnxSteps& s) {
  if (s.rank(s.self()) != 4) return s.refuse("of an input that has not 4 dimensions");
  s.give(s.op("DepthToSpace", {s.x()},
              {{"blocksize", s.node.int_or("upscale_factor", 1)}, {"mode", std::string("CRD")}}));
}
void convert_pixel_unshuffle(OnnxSteps& s) {
  const std::optional<std::vector<int64_t>> x = s.fixed_shape(s.self());
  if (!x) return;
  const int64_t r = s.node.int_or("downscale_factor", 1);
  if (x->size() != 4) return s.refuse("of an input that has not 4 dimensions");
  const std::string apart = s.reshape(s.x(), {(*x)[0], (*x)[1], (*x)[2] / r, r, (*x)[3] / r, r});
  s.give(s.reshaped(s.transpose(apart, {0, 1, 3, 5, 2, 4}), nullptr, s.result()));
}
void convert_channel_shuffle(OnnxSteps& s) {
  const std::optional<int64_t> channels = s.fixed_size(s.self(), 1);
  if (!channels) return;
  const int64_t groups = s.node.int_or("groups", 1);
  const std::string apart = s.reshape(s.x(), {0, groups, *channels / groups, -1});
  s.give(s.reshaped(s.transpose(apart, {0, 2, 1, 3}), s.self(), s.result()));
}

// ---- joined

// Tensors of a list in the result's dtype; torch leaves out those of shape [0].
Names joined_tensors(OnnxSteps& s) {
  Names names;
  for (Value* value : s.list("tensors")) {
    const TensorMeta& meta = s.meta(value);
    const bool is_nothing = meta.sizes.size() == 1 && !meta.sizes[0].is_symbolic() &&
                            meta.sizes[0].value == 0 && s.rank(s.result()) != 1;
    if (!is_nothing) names.push_back(s.cast(value, s.dtype(s.result())));
  }
  return names;
}
void convert_cat(OnnxSteps& s) {
  const size_t axis = s.dim_of(s.result(), s.node.int_or("dim", 0));
  s.give(s.op("Concat", joined_tensors(s), {{"axis", static_cast<int64_t>(axis)}}));
}
void convert_stack(OnnxSteps& s) {
  const int64_t axis = static_cast<int64_t>(s.dim_of(s.result(), s.node.int_or("dim", 0)));
  Names names;
  for (Value* value : s.list("tensors"))
    names.push_back(s.unsqueeze(s.cast(value, s.dtype(s.result())), {axis}));
  s.give(s.op("Concat", names, {{"axis", axis}}));
}

// ---- repeated

void convert_expand(OnnxSteps& s) { s.give(s.op("Expand", {s.x(), s.sizes("size", 1)})); }
void convert_expand_as(OnnxSteps& s) { s.give(s.op("Expand", {s.x(), s.shape(s.input("other"))})); }
void convert_repeat(OnnxSteps& s) {
  const size_t missing = s.rank(s.result()) - s.rank(s.self());
  const char* name = s.node.find_argument("repeats") != nullptr ? "repeats" : "dims";
  if (s.node.is("aten.tile") && s.node.ints_or(name, {}).size() < s.rank(s.self()))
    return s.refuse("with fewer numbers than dimensions");
  s.give(s.op("Tile", {s.unsqueeze(s.x(), counted(missing)), s.sizes(name)}));
}
// Each element so many times behind itself.
void convert_repeat_interleave(OnnxSteps& s) {
  const int64_t repeats = s.node.int_or("repeats", -1);
  if (repeats < 0 || !s.has("dim")) return s.refuse("with repeats that are a tensor");
  const size_t dim = s.dim_of(s.self(), s.node.int_or("dim", 0));
  std::vector<int64_t> tiles(s.rank(s.self()) + 1, 1);
  tiles[dim + 1] = repeats;
  const std::string wide = s.unsqueeze(s.x(), {static_cast<int64_t>(dim) + 1});
  s.give(s.reshaped(s.op("Tile", {wide, s.ints(tiles)}), nullptr, s.result()));
}

// ---- borders

// torch counts from the last dimension; ONNX has all beginnings, then all ends.
std::vector<int64_t> onnx_pads(const std::vector<int64_t>& given, size_t rank) {
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i + 1 < given.size() && i / 2 < rank; i += 2) {
    pads[rank - 1 - i / 2] = given[i];
    pads[2 * rank - 1 - i / 2] = given[i + 1];
  }
  return pads;
}
void give_padded(OnnxSteps& s, const char* name, const std::string& torch_mode) {
  const std::string mode = torch_mode == "replicate"  ? "edge"
                           : torch_mode == "circular" ? "wrap"
                           : torch_mode.empty()       ? "constant"
                                                      : torch_mode;
  if (mode == "wrap" && !s.exporter.need(s.node, 19, "circular borders")) return;
  const Argument* argument = s.node.find_argument(name);
  if (argument != nullptr && argument->find<SymIntList>() != nullptr)
    return s.refuse("by numbers that are not fixed");
  const std::string value =
      mode == "constant" ? s.number(s.node.float_or("value", 0), s.dtype(s.self())) : "";
  const std::vector<int64_t> pads = onnx_pads(s.node.ints_or(name, {}), s.rank(s.self()));
  s.give(s.op("Pad", {s.x(), s.ints(pads), value}, {{"mode", mode}}));
}
void convert_pad(OnnxSteps& s) { give_padded(s, "pad", s.text("mode")); }
void convert_reflection_pad(OnnxSteps& s) { give_padded(s, "padding", "reflect"); }
void convert_replication_pad(OnnxSteps& s) { give_padded(s, "padding", "replicate"); }

constexpr OnnxRow kShapeRows[] = {
    {"aten.positive", convert_alias},
    {"aten.resolve_conj", convert_alias},
    {"aten.resolve_neg", convert_alias},
    {"aten.alias", convert_alias},
    {"aten.detach", convert_alias},
    {"aten.clone", convert_alias},
    {"aten.contiguous", convert_alias},
    {"aten.lift_fresh_copy", convert_alias},
    {"aten.dropout", convert_dropout},
    {"aten.feature_dropout", convert_dropout},
    {"aten.to", convert_cast},
    {"aten._to_copy", convert_cast},
    {"aten.type_as", convert_cast},
    {"quantized_decomposed.convert_element_type", convert_cast},
    {"aten.view", convert_reshape},
    {"aten._unsafe_view", convert_reshape},
    {"aten.view_copy", convert_reshape},
    {"aten.reshape", convert_reshape},
    {"aten.flatten", convert_reshape},
    {"aten.unflatten", convert_reshape},
    {"aten.ravel", convert_reshape},
    {"aten.view_as", convert_reshape},
    {"aten.reshape_as", convert_reshape},
    {"aten.atleast_1d", convert_reshape},
    {"aten.unsqueeze", convert_unsqueeze},
    {"aten.squeeze", convert_squeeze},
    {"aten.permute", convert_permute},
    {"aten.transpose", convert_transpose},
    {"aten.swapaxes", convert_transpose},
    {"aten.swapdims", convert_transpose},
    {"aten.t", convert_t},
    {"aten.mT", convert_t},
    {"aten.numpy_T", convert_numpy_t},
    {"aten.movedim", convert_movedim},
    {"aten.moveaxis", convert_movedim},
    {"aten.pixel_shuffle", convert_pixel_shuffle},
    {"aten.pixel_unshuffle", convert_pixel_unshuffle},
    {"aten.channel_shuffle", convert_channel_shuffle},
    {"aten.cat", convert_cat},
    {"aten.concat", convert_cat},
    {"aten.concatenate", convert_cat},
    {"aten.stack", convert_stack},
    {"aten.expand", convert_expand},
    {"aten.broadcast_to", convert_expand},
    {"aten.expand_as", convert_expand_as},
    {"aten.repeat", convert_repeat},
    {"aten.tile", convert_repeat},
    {"aten.repeat_interleave", convert_repeat_interleave},
    {"aten.pad", convert_pad},
    {"aten.constant_pad_nd", convert_pad},
    {"aten.reflection_pad1d", convert_reflection_pad},
    {"aten.reflection_pad2d", convert_reflection_pad},
    {"aten.reflection_pad3d", convert_reflection_pad},
    {"aten.replication_pad1d", convert_replication_pad},
    {"aten.replication_pad2d", convert_replication_pad},
    {"aten.replication_pad3d", convert_replication_pad},
};

}  // namespace

std::span<const OnnxRow> shape_onnx_rows() { return kShapeRows; }

}  // namespace octet

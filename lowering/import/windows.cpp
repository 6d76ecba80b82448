// Windows and borders: what is taken from around an element, or moved between channels and
// neighbours.
#include <algorithm>
#include <numeric>

#include "lowering/import/importer.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

// tensor.unfold: the windows along a dimension, as a dimension at the end.
void import_unfold(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int given = s.operand({"self", "input"});
  const int x = s.at_least_1d(given);
  const size_t dim = s.dim_of(x, node.int_or("dimension", 0));
  const std::optional<int64_t> length = fixed_size(importer, node, x, dim);
  if (!length) return;
  const int64_t size = node.int_or("size", 1), step = node.int_or("step", 1);
  const int64_t count = (*length - size) / step + 1;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < size; ++j) places.push_back(i * step + j);
  Sizes apart = s.sizes(x);
  apart[dim] = count;
  apart.insert(apart.begin() + static_cast<int64_t>(dim) + 1, size);
  std::vector<int64_t> order(apart.size());
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + static_cast<int64_t>(dim) + 1);
  order.push_back(static_cast<int64_t>(dim) + 1);
  const int taken = s.take(x, static_cast<int64_t>(dim), places);
  if (s.rank(given) == 0) return s.give(taken);
  s.give(s.permute(s.reshape(taken, apart), order));
}

// Where the element at `i`, which may lie outside, comes from.
int64_t bordered(int64_t i, int64_t size, std::string_view mode) {
  if (mode == "circular") return ((i % size) + size) % size;
  if (mode == "replicate") return std::clamp<int64_t>(i, 0, size - 1);
  return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;  // reflect
}

void emit_borders(Importer& importer, const Node& node, std::string_view mode) {
  Steps s(importer, node);
  int x = s.operand({"self", "input"});
  const char* name = node.find_argument("pad") != nullptr ? "pad" : "padding";
  const std::vector<int64_t> pads = node.ints_or(name, {});  // last dimension first
  for (size_t i = 0; 2 * i + 1 < pads.size(); ++i) {
    const size_t dim = s.rank(x) - 1 - i;
    const std::optional<int64_t> size = fixed_size(importer, node, x, dim);
    if (!size) return;
    std::vector<int64_t> places;
    for (int64_t at = -pads[2 * i]; at < *size + pads[2 * i + 1]; ++at)
      places.push_back(bordered(at, *size, mode));
    if (pads[2 * i] != 0 || pads[2 * i + 1] != 0) x = s.take(x, static_cast<int64_t>(dim), places);
  }
  s.give(x);
}

struct BorderRow {
  std::string_view op;
  std::string_view mode;
};
constexpr BorderRow kBorders[] = {
    {"aten.reflection_pad1d", "reflect"},    {"aten.reflection_pad2d", "reflect"},
    {"aten.reflection_pad3d", "reflect"},    {"aten.replication_pad1d", "replicate"},
    {"aten.replication_pad2d", "replicate"}, {"aten.replication_pad3d", "replicate"},
    {"aten._pad_circular", "circular"},
};

void import_border(Importer& importer, const Node& node) {
  for (const BorderRow& row : kBorders)
    if (node.is(row.op)) return emit_borders(importer, node, row.mode);
}

// [N, C, H*r, W*r] -> [N, C*r*r, H, W]
void import_pixel_unshuffle(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.operand({"self", "input"});
  const int64_t r = node.int_or("downscale_factor", 1);
  const Sizes in = s.sizes(x);
  if (in.size() != 4) return importer.refuse(node, "of an input that has not 4 dimensions");
  const SizeExpr h = floor_divide(in[2], r), w = floor_divide(in[3], r);
  const int split = s.reshape(x, {in[0], in[1], h, SizeExpr(r), w, SizeExpr(r)});
  s.give(s.reshape(s.permute(split, {0, 1, 3, 5, 2, 4}), {in[0], in[1] * SizeExpr(r * r), h, w}));
}

void import_channel_shuffle(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.operand({"self", "input"});
  const Sizes in = s.sizes(x);
  const int64_t groups = node.int_or("groups", 1);
  Sizes apart = in;
  apart[1] = groups;
  apart.insert(apart.begin() + 2, floor_divide(in[1], groups));
  s.give(s.reshape(s.transpose(s.reshape(x, apart), 1, 2), in));
}

// im2col, col2im
void import_windows(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const bool is_unfolded = node.is("aten.im2col");
  Attributes attributes;
  for (const char* name : {"kernel_size", "dilation", "padding", "stride"})
    attributes[name] = repeated(node.ints_or(name, {name[0] == 'p' ? 0 : 1}), 2);
  if (node.find_argument("output_size") != nullptr)
    attributes["output_size"] = repeated(node.ints_or("output_size", {}), 2);
  int x = s.operand({"self", "input"});
  Sizes out = importer.sizes_of(*node.outputs().front()), in = s.sizes(x);
  const bool is_batched = is_unfolded ? in.size() == 4 : in.size() == 3;
  if (!is_batched) {
    in.insert(in.begin(), 1);
    out.insert(out.begin(), 1);
    x = s.reshape(x, in);
  }
  s.give(s.op(is_unfolded ? "im2col" : "col2im", {x}, out, s.dtype(x), std::move(attributes)));
}

constexpr ImportRow kWindowRows[] = {
    {"aten.unfold", import_unfold},
    {"aten.pixel_unshuffle", import_pixel_unshuffle},
    {"aten.channel_shuffle", import_channel_shuffle},
    {"aten.im2col", import_windows},
    {"aten.col2im", import_windows},
};

}  // namespace

void import_borders(Importer& importer, const Node& node, std::string_view mode) {
  emit_borders(importer, node, mode);
}

std::span<const ImportRow> window_import_rows() {
  static const std::vector<ImportRow> rows = [] {
    std::vector<ImportRow> all(std::begin(kWindowRows), std::end(kWindowRows));
    for (const BorderRow& row : kBorders) all.push_back({row.op.data(), import_border});
    return all;
  }();
  return rows;
}

}  // namespace octet

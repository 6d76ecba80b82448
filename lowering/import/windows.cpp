// Imports ops on windows and borders: unfold, pads, pixel shuffles, pools with indices and their
// inverse.
#include <algorithm>
#include <numeric>

#include "lowering/import/steps.h"

namespace octet {
namespace {

// tensor.unfold: the windows along a dimension become a last dimension.
void import_unfold(Steps& s, const Node& node) {
  const int given = s.operand({"self", "input"});
  const int x = s.at_least_1d(given);
  const size_t dim = s.dim_of(x, node.int_or("dimension", 0));
  const std::optional<int64_t> length = s.fixed_size(x, dim);
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

// The source index of the element at `i`, which may be outside.
int64_t bordered(int64_t i, int64_t size, std::string_view mode) {
  if (mode == "circular") return ((i % size) + size) % size;
  if (mode == "replicate") return std::clamp<int64_t>(i, 0, size - 1);
  return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;  // reflect
}

void import_border(Steps& s, const Node& node) { import_borders(s, node, s.word()); }

// [N, C, H*r, W*r] -> [N, C*r*r, H, W]
void import_pixel_unshuffle(Steps& s, const Node& node) {
  const int x = s.operand({"self", "input"});
  const int64_t r = node.int_or("downscale_factor", 1);
  const Sizes in = s.sizes(x);
  if (in.size() != 4) return s.refuse("of an input that does not have 4 dimensions");
  const SizeExpr h = floor_divide(in[2], r), w = floor_divide(in[3], r);
  const int split = s.reshape(x, {in[0], in[1], h, SizeExpr(r), w, SizeExpr(r)});
  s.give(s.reshape(s.permute(split, {0, 1, 3, 5, 2, 4}), {in[0], in[1] * SizeExpr(r * r), h, w}));
}

void import_channel_shuffle(Steps& s, const Node& node) {
  const int x = s.operand({"self", "input"});
  const Sizes in = s.sizes(x);
  const int64_t groups = node.int_or("groups", 1);
  Sizes apart = in;
  apart[1] = groups;
  apart.insert(apart.begin() + 2, floor_divide(in[1], groups));
  s.give(s.reshape(s.transpose(s.reshape(x, apart), 1, 2), in));
}

// im2col, col2im
void import_windows(Steps& s, const Node& node) {
  const bool is_unfolded = node.is("aten.im2col");
  Attributes attributes;
  for (const char* name : {"kernel_size", "dilation", "padding", "stride"})
    attributes[name] = repeated(node.ints_or(name, {name[0] == 'p' ? 0 : 1}), 2);
  if (node.find_argument("output_size") != nullptr)
    attributes[attr::kOutputSize] = repeated(node.ints_or("output_size", {}), 2);
  int x = s.operand({"self", "input"});
  Sizes out = s.result_sizes(), in = s.sizes(x);
  const bool is_batched = is_unfolded ? in.size() == 4 : in.size() == 3;
  if (!is_batched) {
    in.insert(in.begin(), 1);
    out.insert(out.begin(), 1);
    x = s.reshape(x, in);
  }
  s.give(s.op(is_unfolded ? "im2col" : "col2im", {x}, out, s.dtype(x), std::move(attributes)));
}

// ---- pools that give indices

// For each element of the result along one dimension, the input indices in its window; all windows
// have the same length. An index outside the input is replaced by the nearest one inside, which
// does not change the maximum.
struct WindowsOfDim {
  int64_t size;  // size of the input
  std::vector<std::vector<int64_t>> places;
};

WindowsOfDim strided_windows(const Node& node, int64_t size, int64_t count, size_t d,
                             size_t spatial) {
  const auto setting = [&](const char* name, int64_t fallback) {
    const std::vector<int64_t> values = repeated(node.ints_or(name, {}), spatial);
    return values.empty() ? fallback : values[d];
  };
  const int64_t kernel = setting("kernel_size", 1), stride = setting("stride", kernel),
                padding = setting("padding", 0), dilation = setting("dilation", 1);
  WindowsOfDim windows{size, {}};
  for (int64_t o = 0; o < count; ++o) {
    const int64_t first = o * stride - padding;
    const int64_t before = first < 0 ? (-first + dilation - 1) / dilation : 0;
    const int64_t last = std::min(kernel - 1, (size - 1 - first) / dilation);
    std::vector<int64_t>& places = windows.places.emplace_back();
    for (int64_t k = 0; k < kernel; ++k)
      places.push_back(first + std::clamp(k, std::min(before, last), last) * dilation);
  }
  return windows;
}

WindowsOfDim adaptive_windows(int64_t size, int64_t count) {
  WindowsOfDim windows{size, {}};
  size_t longest = 0;
  for (int64_t o = 0; o < count; ++o) {
    std::vector<int64_t>& places = windows.places.emplace_back();
    for (int64_t i = o * size / count; i < ((o + 1) * size + count - 1) / count; ++i)
      places.push_back(i);
    longest = std::max(longest, places.size());
  }
  for (std::vector<int64_t>& places : windows.places) places.resize(longest, places.back());
  return windows;
}

// The index of each window element in the plane: [counts..., window lengths...].
std::vector<int64_t> plane_indices(const std::vector<WindowsOfDim>& windows) {
  std::vector<int64_t> shape;
  for (const WindowsOfDim& dim : windows) shape.push_back(std::ssize(dim.places));
  for (const WindowsOfDim& dim : windows) shape.push_back(std::ssize(dim.places[0]));
  std::vector<int64_t> indices(static_cast<size_t>(product(shape)));
  for (size_t i = 0; i < indices.size(); ++i) {
    std::vector<int64_t> position(shape.size());
    auto rest = static_cast<int64_t>(i);
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) position[d] = rest % shape[d];
    for (size_t d = 0; d < windows.size(); ++d)
      indices[i] = indices[i] * windows[d].size +
                   windows[d].places[static_cast<size_t>(position[d])]
                                    [static_cast<size_t>(position[windows.size() + d])];
  }
  return indices;
}

// [..., counts..., elements of a window]
int windows_of(Steps& s, int x, const std::vector<WindowsOfDim>& windows) {
  const size_t lead = s.rank(x) - windows.size();
  Sizes apart = s.sizes(x), joined;
  apart.resize(lead);
  joined = apart;
  std::vector<int64_t> order(lead);
  for (size_t d = 0; d < lead; ++d) order[d] = static_cast<int64_t>(d);
  int64_t elements = 1;
  for (size_t d = 0; d < windows.size(); ++d) {
    std::vector<int64_t> places;
    for (const std::vector<int64_t>& window : windows[d].places)
      places.insert(places.end(), window.begin(), window.end());
    x = s.take(x, static_cast<int64_t>(lead + d), places);
    const int64_t length = std::ssize(windows[d].places[0]);
    apart.insert(apart.end(), {SizeExpr(std::ssize(windows[d].places)), SizeExpr(length)});
    joined.push_back(std::ssize(windows[d].places));
    order.push_back(static_cast<int64_t>(lead + 2 * d));
    elements *= length;
  }
  for (size_t d = 0; d < windows.size(); ++d)
    order.push_back(static_cast<int64_t>(lead + 2 * d + 1));
  joined.push_back(elements);
  return s.reshape(s.permute(s.reshape(x, apart), order), joined);
}

size_t dims_of_pool(const Node& node) {
  return static_cast<size_t>(node.target()[node.target().find("pool") + 4] - '0');
}

int gathered(Steps& s, int x, int indices) {
  return s.op("gather", {x, indices}, s.sizes(indices), s.dtype(x),
              {{attr::kDim, static_cast<int64_t>(s.rank(x)) - 1}});
}

// max_unpool: writes each element to its index in its plane; the others are zeros.
void import_unpool(Steps& s, const Node& node) {
  const int x = s.operand("self"), indices = s.operand("indices");
  const size_t lead = s.rank(x) - (node.is("aten.max_unpool3d") ? 3 : 2);
  const Sizes out = s.result_sizes();
  const auto flat = [&](const Sizes& sizes) {
    Sizes result(std::vector<SizeExpr>(sizes.begin(), sizes.begin() + static_cast<int64_t>(lead)));
    SizeExpr plane = 1;
    for (size_t d = lead; d < sizes.size(); ++d) plane = plane * sizes[d];
    result.push_back(plane);
    return result;
  };
  const int zeros = s.expand(s.filled(s.dtype(x), std::vector<int64_t>(lead + 1, 1), 0), flat(out));
  s.give(s.op("scatter",
              {zeros, s.reshape(indices, flat(s.sizes(indices))), s.reshape(x, flat(s.sizes(x)))},
              flat(out), s.dtype(x),
              {{attr::kDim, static_cast<int64_t>(lead)},
               {attr::kReduce, std::string("none")},
               {attr::kIncludeSelf, true}}));
}

constexpr ImportRow kWindowRows[] = {
    {"aten.reflection_pad1d", import_border, "reflect"},
    {"aten.reflection_pad2d", import_border, "reflect"},
    {"aten.reflection_pad3d", import_border, "reflect"},
    {"aten.replication_pad1d", import_border, "replicate"},
    {"aten.replication_pad2d", import_border, "replicate"},
    {"aten.replication_pad3d", import_border, "replicate"},
    {"aten._pad_circular", import_border, "circular"},
    {"aten.max_pool1d_with_indices", import_pool_with_indices},
    {"aten.max_pool3d_with_indices", import_pool_with_indices},
    {"aten.max_unpool2d", import_unpool},
    {"aten.max_unpool3d", import_unpool},
    {"aten.unfold", import_unfold},
    {"aten.pixel_unshuffle", import_pixel_unshuffle},
    {"aten.channel_shuffle", import_channel_shuffle},
    {"aten.im2col", import_windows},
    {"aten.col2im", import_windows},
};

}  // namespace

void import_borders(Steps& s, const Node& node, std::string_view mode) {
  int x = s.operand({"self", "input"});
  const char* name = node.find_argument("pad") != nullptr ? "pad" : "padding";
  const std::vector<int64_t> pads = node.ints_or(name, {});  // last dimension first
  for (size_t i = 0; 2 * i + 1 < pads.size(); ++i) {
    const size_t dim = s.rank(x) - 1 - i;
    const std::optional<int64_t> size = s.fixed_size(x, dim);
    if (!size) return;
    std::vector<int64_t> places;
    for (int64_t at = -pads[2 * i]; at < *size + pads[2 * i + 1]; ++at)
      places.push_back(bordered(at, *size, mode));
    if (pads[2 * i] != 0 || pads[2 * i + 1] != 0) x = s.take(x, static_cast<int64_t>(dim), places);
  }
  s.give(x);
}

void import_pool_with_indices(Steps& s, const Node& node) {
  const int x = s.self();
  const size_t spatial = dims_of_pool(node), lead = s.rank(x) - spatial;
  const Sizes in = s.sizes(x), out = s.result_sizes();
  std::vector<WindowsOfDim> windows;
  for (size_t d = 0; d < spatial; ++d) {
    const SizeExpr &from = in[lead + d], &to = out[lead + d];
    if (!from.is_number() || !to.is_number() || from.number() < 1 || to.number() < 1)
      return s.refuse("with indices, of sizes that are not fixed");
    windows.push_back(node.is("aten.max_pool2d_with_indices") ||
                              node.is("aten.max_pool3d_with_indices") ||
                              node.is("aten.max_pool1d_with_indices")
                          ? strided_windows(node, from.number(), to.number(), d, spatial)
                          : adaptive_windows(from.number(), to.number()));
  }
  const int seen = windows_of(s, x, windows);
  Sizes one = s.sizes(seen);
  one.back() = 1;
  const int at = s.op("arg_reduce", {seen}, one, DType::kInt64,
                      {{attr::kFn, std::string("argmax")},
                       {attr::kDim, static_cast<int64_t>(s.rank(seen)) - 1},
                       {attr::kKeepdim, true}});
  std::vector<int64_t> table_shape(lead, 1);
  for (size_t d = lead; d < s.rank(seen); ++d) table_shape.push_back(s.sizes(seen)[d].number());
  const int table = s.expand(s.indices(plane_indices(windows), table_shape), s.sizes(seen));
  const std::vector<Value*> results = node.outputs();
  s.give(results[0], gathered(s, seen, at));
  if (results.size() > 1) s.give(results[1], gathered(s, table, at));
}

std::span<const ImportRow> window_import_rows() { return kWindowRows; }

}  // namespace octet

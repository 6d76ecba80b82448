// The largest elements of windows together with where they are, and the way back to there.
#include <algorithm>

#include "lowering/import/importer.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

// For each element of the result along one dimension the places that its window has, all of one
// number: a place outside of the input is the nearest inside, which changes no maximum.
struct WindowsOfDim {
  int64_t size;  // of the input
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

// Of each place of the result, within all of a plane: [counts..., windows' lengths...].
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
              {{"dim", static_cast<int64_t>(s.rank(x)) - 1}});
}

}  // namespace

void import_pool_with_indices(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self();
  const size_t spatial = dims_of_pool(node), lead = s.rank(x) - spatial;
  const Sizes in = s.sizes(x), out = importer.sizes_of(*node.outputs().front());
  std::vector<WindowsOfDim> windows;
  for (size_t d = 0; d < spatial; ++d) {
    const SizeExpr &from = in[lead + d], &to = out[lead + d];
    if (!from.is_number() || !to.is_number() || from.number() < 1 || to.number() < 1)
      return importer.refuse(node, "with indices, of sizes that are not fixed");
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
                      {{"fn", std::string("argmax")},
                       {"dim", static_cast<int64_t>(s.rank(seen)) - 1},
                       {"keepdim", true}});
  std::vector<int64_t> table_shape(lead, 1);
  for (size_t d = lead; d < s.rank(seen); ++d) table_shape.push_back(s.sizes(seen)[d].number());
  const int table = s.expand(s.indices(plane_indices(windows), table_shape), s.sizes(seen));
  const std::vector<Value*> results = node.outputs();
  s.give(results[0], gathered(s, seen, at));
  if (results.size() > 1) s.give(results[1], gathered(s, table, at));
}

namespace {

// max_unpool: each element goes where its index says, within its plane; zeros elsewhere.
void import_unpool(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.operand("self"), indices = s.operand("indices");
  const size_t lead = s.rank(x) - (node.is("aten.max_unpool3d") ? 3 : 2);
  const Sizes out = importer.sizes_of(*node.outputs().front());
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
              {{"dim", static_cast<int64_t>(lead)},
               {"reduce", std::string("none")},
               {"include_self", true}}));
}

constexpr ImportRow kPoolIndexRows[] = {
    {"aten.max_pool1d_with_indices", import_pool_with_indices},
    {"aten.max_pool3d_with_indices", import_pool_with_indices},
    {"aten.max_unpool2d", import_unpool},
    {"aten.max_unpool3d", import_unpool},
};

}  // namespace

std::span<const ImportRow> pool_index_import_rows() { return kPoolIndexRows; }

}  // namespace octet

// Cells of convolutions, linear layers, products of matrices and recurrent layers.
#include <algorithm>
#include <cmath>

#include "backends/conformance/cell_list.h"

namespace octet::conformance {
namespace {

struct Window {
  const char* name;
  Shape x;
  int64_t out;
  Shape kernel, stride, padding, dilation;
  int64_t groups = 1;
  Shape extra = {};  // padding_end of a convolution, output_padding of a transposed one
  bool has_bias = true;
};

const Window kConvs[] = {
    {"one", {1, 1, 1, 1}, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {"empty", {0, 8, 6, 6}, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"pointwise", {2, 16, 5, 5}, 24, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {"3x3", {1, 8, 6, 6}, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"odd", {1, 3, 7, 5}, 5, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"no_bias", {2, 5, 6, 7}, 7, {3, 3}, {1, 1}, {0, 0}, {1, 1}, 1, {}, false},
    {"uneven", {1, 4, 8, 6}, 6, {3, 1}, {1, 2}, {1, 0}, {1, 1}},
    {"dilated", {1, 4, 9, 9}, 8, {3, 3}, {1, 1}, {2, 2}, {2, 2}},
    {"padded_end", {1, 4, 6, 6}, 8, {3, 3}, {2, 2}, {0, 0}, {1, 1}, 1, {1, 1}},
    {"groups", {2, 6, 5, 5}, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 2},
    {"depthwise", {1, 17, 9, 9}, 17, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 17},
    {"depthwise_stride", {1, 32, 8, 8}, 32, {5, 5}, {2, 2}, {2, 2}, {1, 1}, 32},
    {"multiplier", {1, 4, 6, 6}, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 4},
    {"1d", {2, 4, 9}, 6, {3}, {1}, {1}, {1}},
    {"3d", {1, 2, 4, 5, 4}, 3, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {"large", {1, 32, 28, 28}, 48, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
};

const Window kTransposed[] = {
    {"one", {1, 1, 1, 1}, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {"empty", {0, 8, 5, 5}, 4, {2, 2}, {2, 2}, {0, 0}, {1, 1}},
    {"2x2", {1, 8, 5, 5}, 4, {2, 2}, {2, 2}, {0, 0}, {1, 1}},
    {"odd", {2, 3, 5, 4}, 5, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, {1, 1}},
    {"groups", {1, 6, 4, 4}, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 2},
    {"no_bias", {1, 4, 6, 6}, 6, {4, 4}, {2, 2}, {1, 1}, {1, 1}, 1, {}, false},
    {"1d", {1, 4, 7}, 5, {4}, {2}, {1}, {1}},
};

int64_t at(const Shape& shape, size_t d, int64_t fallback) {
  return shape.empty() ? fallback : shape[d];
}

Attributes attributes_of(const Window& w) {
  return {
      {"stride", w.stride}, {"padding", w.padding}, {"dilation", w.dilation}, {"groups", w.groups}};
}

void conv(CellBuilder& b, const Window& w) {
  Shape filter = {w.out, w.x[1] / w.groups}, y = {w.x[0], w.out};
  for (size_t d = 0; d < w.kernel.size(); ++d) {
    filter.push_back(w.kernel[d]);
    const int64_t padding = w.padding[d] + at(w.extra, d, w.padding[d]);
    y.push_back((w.x[2 + d] + padding - w.dilation[d] * (w.kernel[d] - 1) - 1) / w.stride[d] + 1);
  }
  Attributes attributes = attributes_of(w);
  if (!w.extra.empty()) attributes["padding_end"] = w.extra;
  const int x = b.x(w.x), filters = b.weight(filter, 0);
  b.op("conv", {x, filters, w.has_bias ? b.bias(w.out) : -1}, y, attributes);
}

void conv_transpose(CellBuilder& b, const Window& w) {
  Shape filter = {w.x[1], w.out / w.groups}, y = {w.x[0], w.out};
  for (size_t d = 0; d < w.kernel.size(); ++d) {
    filter.push_back(w.kernel[d]);
    y.push_back((w.x[2 + d] - 1) * w.stride[d] - 2 * w.padding[d] +
                w.dilation[d] * (w.kernel[d] - 1) + at(w.extra, d, 0) + 1);
  }
  Attributes attributes = attributes_of(w);
  if (!w.extra.empty()) attributes["output_padding"] = w.extra;
  const int x = b.x(w.x), filters = b.weight(filter, 1);
  b.op("conv_transpose", {x, filters, w.has_bias ? b.bias(w.out) : -1}, y, attributes);
}

struct Linear {
  const char* name;
  Shape x;
  int64_t out;
  bool has_bias = true;
};
const Linear kLinears[] = {
    {"one", {1, 1}, 1},     {"empty", {0, 64}, 32},  {"no_depth", {3, 0}, 4},
    {"row", {1, 64}, 32},   {"odd", {2, 5, 17}, 9},  {"no_bias", {3, 8}, 6, false},
    {"wide", {4, 31}, 257}, {"deep", {3, 1000}, 10}, {"large", {64, 128}, 96}};

struct Matmul {
  const char* name;
  Shape a, b, y;
};
const Matmul kMatmuls[] = {{"one", {1, 1}, {1, 1}, {1, 1}},
                           {"empty", {0, 16}, {16, 12}, {0, 12}},
                           {"no_depth", {3, 0}, {0, 4}, {3, 4}},
                           {"plain", {8, 16}, {16, 12}, {8, 12}},
                           {"batch", {2, 3, 5, 7}, {2, 3, 7, 4}, {2, 3, 5, 4}},
                           {"broadcast", {4, 5, 9}, {9, 3}, {4, 5, 3}},
                           {"large", {2, 64, 64}, {2, 64, 48}, {2, 64, 48}}};

// An integer weight is stored with scales, as recurrent ops take it.
void recurrent(CellBuilder& b, const char* cell, int64_t gates, bool is_reverse, bool is_integer) {
  const int64_t steps = 4, batch = 3, hidden = 9, rows = gates * hidden;
  const int gate_inputs = b.reals({steps, batch, rows});
  const int weights =
      is_integer
          ? b.constant(StoredConstant{random_integers(DType::kInt8, {rows, hidden}, 2, -127, 127),
                                      Tensor::from<float>(DType::kFloat32, {rows, 1},
                                                          random_scales(static_cast<size_t>(rows))),
                                      Tensor()})
          : b.constant({rows, hidden}, -0.3f, 0.3f);
  const int bias = b.constant(random_floats({rows}, -1, 1, 3)), start = b.reals({batch, hidden});
  std::vector<int> inputs = {gate_inputs, weights, bias, start};
  if (gates == 4) inputs.push_back(b.reals({batch, hidden}));
  b.op("recurrent", inputs, {steps, batch, hidden},
       {{"cell", std::string(cell)}, {"reverse", is_reverse}});
  if (gates == 4) b.second_output({batch, hidden}, DType::kFloat32);
}

struct Attended {
  const char* name;
  Shape q;  // [N,H,L,D]
  int64_t groups, columns, width;
  // of the causal mask: how many columns the first row sees, and at most how many a row sees
  int64_t seen = 0, window = 1 << 20;
  double softcap = 0;
};
const Attended kAttended[] = {{"one", {1, 1, 1, 1}, 1, 1, 1},
                              {"empty", {0, 2, 3, 16}, 2, 21, 16},
                              {"unmasked", {2, 2, 3, 16}, 2, 21, 16},
                              {"decode", {1, 9, 1, 64}, 3, 150, 64, 77},
                              {"decode_window", {2, 4, 1, 33}, 1, 100, 5, 81, 20, 3},
                              {"prefill", {2, 4, 37, 32}, 2, 70, 48, 1},
                              {"window", {1, 6, 21, 7}, 3, 90, 130, 66, 4},
                              {"wide", {1, 2, 4, 256}, 1, 65, 256, 60, 1 << 20, 0.5},
                              {"hidden", {1, 2, 5, 8}, 2, 6, 8, -1}};

// is_integer: keys and values are int8 with a scale for each row.
void attention(CellBuilder& b, const Attended& a, bool is_integer) {
  const int64_t rows = a.q[2];
  const auto cache = [&](int64_t width, uint32_t seed) {
    const Shape shape = {a.q[0], a.groups, a.columns, width};
    return is_integer
               ? b.constant(random_integers(DType::kInt8, shape, seed), TensorQParams{{1}, {0}})
               : b.reals(shape);
  };
  const int q = b.reals(a.q), k = cache(a.q[3], 1), v = cache(a.width, 2);
  std::vector<float> mask(static_cast<size_t>(rows * a.columns), -INFINITY);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = std::max<int64_t>(i + a.seen - a.window, 0); j < i + a.seen; ++j)
      if (j < a.columns)
        mask[static_cast<size_t>(i * a.columns + j)] = 0.01f * static_cast<float>(j);
  Attributes attributes = {{"scale", 0.4}, {"masked", true}};
  if (a.softcap != 0) attributes["softcap"] = a.softcap;
  std::vector<int> inputs = {
      q, k, v,
      a.seen == 0 ? -1 : b.constant(Tensor::from<float>(DType::kFloat32, {rows, a.columns}, mask))};
  for (size_t i = 0; i < 2 && is_integer; ++i)
    inputs.push_back(b.constant({a.q[0], a.groups, a.columns, 1}, 0.001f, 0.02f));
  b.op("attention", inputs, {a.q[0], a.q[1], rows, a.width}, attributes);
}

}  // namespace

void add_products(CellList& cells) {
  for (const Window& w : kConvs)
    cells.add_weighted("conv", w.name, [w](CellBuilder& b) { conv(b, w); }, true);
  for (const Window& w : kTransposed)
    cells.add_weighted("conv_transpose", w.name, [w](CellBuilder& b) { conv_transpose(b, w); });
  for (const Linear& l : kLinears)
    cells.add_weighted(
        "linear", l.name,
        [l](CellBuilder& b) {
          Shape y = l.x;
          y.back() = l.out;
          const int x = b.x(l.x), w = b.weight({l.out, l.x.back()}, 0);
          b.op("linear", {x, w, l.has_bias ? b.bias(l.out) : -1}, y);
        },
        true);
  for (const Matmul& m : kMatmuls)
    cells.add("matmul", m.name, compute_forms(), [m](CellBuilder& b) {
      const int left = b.x(m.a), right = b.x(m.b);
      b.op("matmul", {left, right}, m.y);
    });
  constexpr std::pair<const char*, int64_t> kCells[] = {
      {"lstm", 4}, {"gru", 3}, {"tanh", 1}, {"relu", 1}};
  for (const auto& [cell, gates] : kCells)
    for (bool is_reverse : {false, true})
      for (bool is_integer : {false, true})
        cells.add("recurrent",
                  std::string(cell) + (is_reverse ? "_reverse" : "") + (is_integer ? "_i8" : ""),
                  float_forms(),
                  [cell = cell, gates = gates, is_reverse, is_integer](CellBuilder& b) {
                    recurrent(b, cell, gates, is_reverse, is_integer);
                  });
  for (const Attended& a : kAttended)
    for (bool is_integer : {false, true})
      cells.add("attention", std::string(a.name) + (is_integer ? "_i8" : ""), float_forms(),
                [a, is_integer](CellBuilder& b) { attention(b, a, is_integer); });
}

}  // namespace octet::conformance

// Cells of several ops: the parts that networks of each family consist of, and those whose runs
// depend on the runs before.
#include "backends/conformance/cell_list.h"

namespace octet::conformance {
namespace {

Attributes window(int64_t kernel, int64_t stride, int64_t padding) {
  return {{"kernel_size", Shape{kernel, kernel}},
          {"stride", Shape{stride, stride}},
          {"padding", Shape{padding, padding}}};
}

int conv(CellBuilder& b, int x, const Shape& filter, const Shape& y, int64_t padding,
         int64_t groups = 1, double relu = 0) {
  Attributes attributes = {
      {"stride", Shape{1, 1}}, {"padding", Shape{padding, padding}}, {"groups", groups}};
  if (relu != 0) attributes["post_min"] = 0.0;
  const int w = b.weight(filter, 0);
  return b.op("conv", {x, w, b.bias(filter[0])}, y, attributes);
}

int linear(CellBuilder& b, int x, int64_t in, int64_t out, Shape y) {
  const int w = b.weight({out, in}, 0);
  return b.op("linear", {x, w, b.bias(out)}, std::move(y));
}

void residual_block(CellBuilder& b) {
  const Shape shape = {2, 8, 6, 6};
  const int x = b.x(shape);
  const int first = conv(b, x, {8, 8, 3, 3}, shape, 1, 1, 1);
  const int second = conv(b, first, {8, 8, 3, 3}, shape, 1);
  const int sum = b.op("add", {second, x}, shape, {{"post_min", 0.0}});
  const int pooled = b.op("max_pool", {sum}, {2, 8, 3, 3}, window(2, 2, 0));
  const int mean = b.op("mean", {pooled}, {2, 8}, {{"dims", Shape{2, 3}}, {"keepdim", false}});
  linear(b, mean, 8, 5, {2, 5});
}

void inverted_bottleneck(CellBuilder& b) {
  const int x = b.x({1, 6, 8, 8});
  const int wide = conv(b, x, {24, 6, 1, 1}, {1, 24, 8, 8}, 0, 1, 1);
  const int deep = conv(b, wide, {24, 1, 3, 3}, {1, 24, 8, 8}, 1, 24);
  const int act = b.op("unary", {deep}, {1, 24, 8, 8}, {{"fn", std::string("hardswish")}});
  const int narrow = conv(b, act, {6, 24, 1, 1}, {1, 6, 8, 8}, 0);
  b.op("add", {narrow, x}, {1, 6, 8, 8});
}

void squeeze_and_excite(CellBuilder& b) {
  const Shape shape = {1, 8, 5, 5}, point = {1, 8, 1, 1};
  const int x = b.x(shape);
  const int mean = b.op("adaptive_avg_pool", {x}, point, {{"output_size", Shape{1, 1}}});
  const int gate = conv(b, mean, {8, 8, 1, 1}, point, 0);
  const int share = b.op("unary", {gate}, point, {{"fn", std::string("sigmoid")}});
  b.op("mul", {x, share}, shape);
}

void perceptron(CellBuilder& b) {
  const int x = b.x({5, 32});
  const int hidden = linear(b, x, 32, 48, {5, 48});
  const int act = b.op("unary", {hidden}, {5, 48}, {{"fn", std::string("gelu")}});
  linear(b, act, 48, 32, {5, 32});
}

void attention(CellBuilder& b) {
  const Shape rows = {1, 2, 6, 8};
  const int q = b.x(rows), k = b.x(rows), v = b.x(rows);
  const int turned = b.op("permute", {k}, {1, 2, 8, 6}, {{"dims", Shape{0, 1, 3, 2}}});
  const int scores = b.op("matmul", {q, turned}, {1, 2, 6, 6});
  const int shares = b.op("softmax", {scores}, {1, 2, 6, 6});
  const int mixed = b.op("matmul", {shares, v}, rows);
  const int heads = b.op("permute", {mixed}, {1, 6, 2, 8}, {{"dims", Shape{0, 2, 1, 3}}});
  b.op("reshape", {heads}, {1, 6, 16});
}

void normalized_layers(CellBuilder& b) {
  const Shape rows = {4, 16};
  const int x = b.x(rows);
  const int norm = b.op("layer_norm", {x, b.constant({16}, 0.5f, 1.5f), b.constant({16})}, rows);
  const int up = linear(b, norm, 16, 32, {4, 32});
  const int act = b.op("unary", {up}, {4, 32}, {{"fn", std::string("silu")}});
  const int down = linear(b, act, 32, 16, rows);
  b.op("add", {down, x}, rows);
}

void branches(CellBuilder& b) {
  const int x = b.x({1, 4, 6, 6});
  const int left = conv(b, x, {4, 4, 1, 1}, {1, 4, 6, 6}, 0, 1, 1);
  const int pool = b.op("max_pool", {left}, {1, 4, 6, 6}, window(3, 1, 1));
  const int both = b.op("cat", {left, pool}, {1, 8, 6, 6}, {{"dim", int64_t{1}}});
  const int shuffled = b.op("permute", {b.op("reshape", {both}, {1, 2, 4, 6, 6})}, {1, 4, 2, 6, 6},
                            {{"dims", Shape{0, 2, 1, 3, 4}}});
  b.op("reshape", {shuffled}, {1, 8, 6, 6});
}

void upsampling(CellBuilder& b) {
  const int x = b.x({1, 4, 4, 4});
  const int low = conv(b, x, {4, 4, 3, 3}, {1, 4, 4, 4}, 1);
  const int high =
      b.op("upsample", {low}, {1, 4, 8, 8},
           {{"mode", std::string("nearest")}, {"scales", std::vector<double>{.5, .5}}});
  conv(b, high, {3, 4, 3, 3}, {1, 3, 8, 8}, 1);
}

// h = tanh(linear(x) + h)
void accumulated(CellBuilder& b) {
  const int x = b.x({3, 8}), w = b.weight({6, 8}, 0), h = b.state({3, 6});
  const int sum = b.op("add", {b.op("linear", {x, w, b.bias(6)}, {3, 6}), h}, {3, 6});
  b.becomes(h, b.op("unary", {sum}, {3, 6}, {{"fn", std::string("tanh")}}));
}

// A convolution along time that keeps the last columns of its input for the next run.
void streamed(CellBuilder& b) {
  const int x = b.x({2, 4, 5}), kept = b.state({2, 4, 2}, x);
  const int both = b.op("cat", {kept, x}, {2, 4, 7}, {{"dim", int64_t{2}}});
  b.becomes(kept, b.op("slice", {both}, {2, 4, 2}, {{"dim", int64_t{2}}, {"start", int64_t{5}}}));
  const int w = b.weight({6, 4, 3}, 0);
  b.op("conv", {both, w, b.bias(6)}, {2, 6, 5}, {{"stride", Shape{1}}, {"padding", Shape{0}}});
}

// Queries that read the rows which this run and those before wrote into a cache.
void cached(CellBuilder& b) {
  const int cache = b.state({8, 6}, -1, b.constant({8, 6}));
  const int queries = b.reals({3, 6}), row = b.reals({1, 6}), place = b.indices({1}, 8);
  const int written = b.op("index_put", {cache, row, place}, {8, 6});
  b.becomes(cache, written);
  const int turned = b.op("permute", {written}, {6, 8}, {{"dims", Shape{1, 0}}});
  b.op("matmul", {queries, turned}, {3, 8});
}

// Gives what the run before got.
void delayed(CellBuilder& b) {
  const int x = b.x({2, 7}), kept = b.state({2, 7}, x);
  b.becomes(kept, b.op("copy", {x}, {2, 7}));
  b.op("reshape", {kept}, {14});
}

}  // namespace

void add_models(CellList& cells) {
  struct Model {
    const char* name;
    void (*build)(CellBuilder& b);
  };
  constexpr Model kModels[] = {{"residual_block", residual_block},
                               {"inverted_bottleneck", inverted_bottleneck},
                               {"squeeze_and_excite", squeeze_and_excite},
                               {"perceptron", perceptron},
                               {"attention", attention},
                               {"normalized_layers", normalized_layers},
                               {"branches", branches},
                               {"upsampling", upsampling}};
  for (const Model& model : kModels) cells.add_weighted("model", model.name, model.build);
}

void add_states(CellList& cells) {
  cells.add("state", "accumulated", float_forms(), accumulated);
  cells.add_weighted("state", "streamed", streamed);
  cells.add("state", "cached", float_forms(), cached);
  cells.add("state", "delayed", movement_forms(), delayed);
}

}  // namespace octet::conformance

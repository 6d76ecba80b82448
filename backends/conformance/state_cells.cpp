// Cells whose runs depend on the runs before.
#include "backends/conformance/cell_list.h"

namespace octet::conformance {
namespace {

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

void add_states(CellList& cells) {
  cells.add("state", "accumulated", float_forms(), accumulated);
  cells.add_weighted("state", "streamed", streamed);
  cells.add("state", "cached", float_forms(), cached);
  cells.add("state", "delayed", movement_forms(), delayed);
}

}  // namespace octet::conformance

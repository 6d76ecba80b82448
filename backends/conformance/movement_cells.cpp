// Cells of ops that copy elements, of tables and of indices.
#include "backends/conformance/cell_list.h"

namespace octet::conformance {
namespace {

struct Movement {
  const char* kind;
  const char* name;
  Shape x, y;
  Attributes attributes = {};
};

Attribute whole(int64_t value) { return value; }

const Movement kMovements[] = {
    {"reshape", "flatten", {2, 3, 5, 7}, {2, 105}},
    {"reshape", "split", {6, 10}, {3, 2, 5, 2}},
    {"reshape", "empty", {0, 6}, {0, 2, 3}},
    {"permute", "empty", {2, 0, 3}, {3, 2, 0}, {{"dims", Shape{2, 0, 1}}}},
    {"expand", "empty", {1, 0}, {4, 0}},
    {"slice",
     "empty",
     {3, 11},
     {3, 0},
     {{"dim", whole(1)}, {"start", whole(4)}, {"step", whole(1)}}},
    {"pad", "empty", {0, 5}, {2, 5}, {{"pads", Shape{2, 0, 0, 0}}, {"value", 0.25}}},
    {"flip", "empty", {0, 5}, {0, 5}, {{"dims", Shape{1}}}},
    {"permute", "channels_last", {2, 3, 5, 4}, {2, 5, 4, 3}, {{"dims", Shape{0, 2, 3, 1}}}},
    {"permute", "matrix", {7, 9}, {9, 7}, {{"dims", Shape{1, 0}}}},
    {"permute", "heads", {2, 5, 3, 8}, {2, 3, 5, 8}, {{"dims", Shape{0, 2, 1, 3}}}},
    {"permute", "large", {64, 96}, {96, 64}, {{"dims", Shape{1, 0}}}},
    {"expand", "rows", {1, 5}, {4, 5}},
    {"expand", "both", {3, 1, 1}, {2, 3, 4, 5}},
    {"slice",
     "channels",
     {2, 8, 3, 3},
     {2, 3, 3, 3},
     {{"dim", whole(1)}, {"start", whole(4)}, {"step", whole(1)}}},
    {"slice",
     "steps",
     {3, 11},
     {3, 4},
     {{"dim", whole(1)}, {"start", whole(1)}, {"step", whole(3)}}},
    {"pad", "pixels", {1, 3, 4, 5}, {1, 3, 6, 8}, {{"pads", Shape{0, 0, 0, 0, 1, 1, 2, 1}}}},
    {"pad", "value", {2, 5}, {3, 7}, {{"pads", Shape{0, 1, 2, 0}}, {"value", 0.25}}},
    {"pad", "cropped", {2, 6, 6}, {2, 4, 7}, {{"pads", Shape{0, 0, -1, -1, 0, 1}}}},
    {"flip", "rows", {4, 5}, {4, 5}, {{"dims", Shape{0}}}},
};

}  // namespace

void add_movements(CellList& cells) {
  for (const Movement& m : kMovements)
    cells.add(m.kind, m.name, movement_forms(),
              [m](CellBuilder& b) { b.op(m.kind, {b.x(m.x)}, m.y, m.attributes); });
  for (int64_t dim : {0, 1, 3})
    cells.add("cat", "dim" + std::to_string(dim), movement_forms(), [dim](CellBuilder& b) {
      Shape shape = {2, 5, 3, 4};
      const int x = b.x(shape);
      shape[static_cast<size_t>(dim)] *= 2;
      b.op("cat", {x, x}, shape, {{"dim", dim}});
    });
  cells.add("cat", "empty", movement_forms(), [](CellBuilder& b) {
    const int x = b.x({2, 5, 3});
    const int none = b.op("slice", {x}, {2, 0, 3}, {{"dim", int64_t{1}}, {"start", int64_t{5}}});
    b.op("cat", {none, x}, {2, 5, 3}, {{"dim", int64_t{1}}});
  });
}

void add_tables(CellList& cells) {
  cells.add_weighted("embedding", "rows", [](CellBuilder& b) {
    b.op("embedding", {b.weight({12, 9}, 0), b.indices({2, 5}, 12)}, {2, 5, 9});
  });
  cells.add_weighted("embedding", "empty", [](CellBuilder& b) {
    b.op("embedding", {b.weight({12, 9}, 0), b.indices({0}, 12)}, {0, 9});
  });
  for (const char* mode : {"sum", "mean", "max"})
    cells.add("embedding_bag", mode, float_forms(), [mode](CellBuilder& b) {
      b.op("embedding_bag", {b.constant({9, 4}), b.indices({3, 5}, 9)}, {3, 4},
           {{"mode", std::string(mode)}});
    });
  cells.add("gather", "columns", movement_forms(), [](CellBuilder& b) {
    const int x = b.x({4, 7}), index = b.indices({4, 3}, 7);
    b.op("gather", {x, index}, {4, 3}, {{"dim", int64_t{1}}});
  });
  cells.add("gather", "empty", movement_forms(), [](CellBuilder& b) {
    const int x = b.x({4, 7}), index = b.indices({4, 0}, 7);
    b.op("gather", {x, index}, {4, 0}, {{"dim", int64_t{1}}});
  });
  for (const char* how : {"none", "sum", "amax"})
    cells.add("scatter", how, float_forms(), [how](CellBuilder& b) {
      // each place once, as the order of several is undefined
      const int x = b.reals({3, 5});
      const int index =
          b.constant(Tensor::from<int64_t>(DType::kInt64, {1, 5}, Shape{2, 0, 1, 1, 2}));
      b.op("scatter", {x, index, b.reals({1, 5})}, {3, 5},
           {{"dim", int64_t{0}}, {"reduce", std::string(how)}});
    });
  cells.add("index", "columns", movement_forms(), [](CellBuilder& b) {
    const int x = b.x({4, 7}), index = b.indices({3}, 7);
    b.op("index", {x, -1, index}, {4, 3});
  });
  cells.add("index_put", "rows", float_forms(), [](CellBuilder& b) {
    const int x = b.reals({4, 7}), values = b.reals({2, 7});
    const int index = b.constant(Tensor::from<int64_t>(DType::kInt64, {2}, Shape{3, 1}));
    b.op("index_put", {x, values, index}, {4, 7});
  });
}

}  // namespace octet::conformance

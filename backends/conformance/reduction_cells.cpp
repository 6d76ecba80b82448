// Cells of reductions, norms, softmax and ordering.
#include "backends/conformance/cell_list.h"

namespace octet::conformance {
namespace {

struct Reduced {
  const char* name;
  Shape x, dims, y;
  bool keeps = false;
};
const Reduced kReduced[] = {
    {"one", {1}, {0}, {}},
    {"empty", {0, 5}, {1}, {0}},
    {"last", {3, 5, 17}, {2}, {3, 5}},
    {"first", {6, 4, 3}, {0}, {1, 4, 3}, true},
    {"pixels", {2, 9, 7, 5}, {2, 3}, {2, 9}},
    {"pixels_kept", {2, 16, 8, 8}, {2, 3}, {2, 16, 1, 1}, true},
    {"all", {3, 7}, {0, 1}, {}},
};

struct Rows {
  const char* name;
  Shape x;
};
const Rows kRows[] = {{"one", {1, 1}},
                      {"empty", {0, 17}},
                      {"odd", {2, 5, 17}},
                      {"wide", {3, 300}},
                      {"large", {64, 128}}};
const Rows kImages[] = {
    {"pixels", {2, 8, 5, 6}}, {"empty", {0, 8, 5, 6}}, {"odd", {1, 6, 7, 3}}, {"rows", {3, 4, 9}}};

void with_parameters(CellBuilder& b, const char* kind, int x, const Shape& shape, int64_t count,
                     Attributes attributes, bool has_bias = true) {
  std::vector<int> inputs = {x, b.constant({count}, 0.5f, 1.5f)};
  if (has_bias) inputs.push_back(b.constant({count}));
  b.op(kind, inputs, shape, std::move(attributes));
}

}  // namespace

void add_reductions(CellList& cells) {
  for (const Reduced& r : kReduced) {
    const Attributes attributes = {{"dims", r.dims}, {"keepdim", r.keeps}};
    cells.add("mean", r.name, compute_forms(),
              [=](CellBuilder& b) { b.op("mean", {b.x(r.x)}, r.y, attributes); });
    for (const char* fn : {"sum", "max", "min", "prod"})
      cells.add("reduce", std::string(fn) + "_" + r.name,
                std::string(fn) == "prod" ? float_forms() : compute_forms(), [=](CellBuilder& b) {
                  Attributes with_fn = attributes;
                  with_fn["fn"] = std::string(fn);
                  b.op("reduce", {b.x(r.x)}, r.y, with_fn);
                });
  }
  for (const Rows& r : kRows) {
    cells.add(
        "softmax", r.name, compute_forms(),
        [r](CellBuilder& b) { b.op("softmax", {b.x(r.x)}, r.x); }, true);
    cells.add("log_softmax", r.name, compute_forms(),
              [r](CellBuilder& b) { b.op("log_softmax", {b.x(r.x)}, r.x); });
    cells.add(
        "layer_norm", r.name, compute_forms(),
        [r](CellBuilder& b) {
          with_parameters(b, "layer_norm", b.x(r.x), r.x, r.x.back(),
                          {{"normalized_dims", int64_t{1}}});
        },
        true);
    cells.add(
        "rms_norm", r.name, compute_forms(),
        [r](CellBuilder& b) {
          with_parameters(b, "rms_norm", b.x(r.x), r.x, r.x.back(), {{"eps", 1e-6}}, false);
        },
        true);
  }
  for (const char* fn : {"sum", "prod"})
    cells.add("reduce", std::string(fn) + "_of_nothing", float_forms(), [fn](CellBuilder& b) {
      b.op("reduce", {b.x({3, 0})}, {3},
           {{"dims", Shape{1}}, {"keepdim", false}, {"fn", std::string(fn)}});
    });
  cells.add("softmax", "columns", compute_forms(), [](CellBuilder& b) {
    b.op("softmax", {b.x({2, 9, 5})}, {2, 9, 5}, {{"dim", int64_t{1}}});
  });
  for (const Rows& r : kImages) {
    cells.add("batch_norm", r.name, compute_forms(), [r](CellBuilder& b) {
      const int64_t count = r.x[1];
      const int x = b.x(r.x), mean = b.constant({count}), variance = b.constant({count}, 0.5f, 2);
      b.op("batch_norm", {x, mean, variance, b.constant({count}, 0.5f, 1.5f), b.constant({count})},
           r.x);
    });
    cells.add("group_norm", r.name, compute_forms(), [r](CellBuilder& b) {
      with_parameters(b, "group_norm", b.x(r.x), r.x, r.x[1], {{"groups", int64_t{2}}});
    });
  }
  for (const char* fn : {"argmax", "argmin"})
    cells.add("arg_reduce", fn, float_forms(), [fn](CellBuilder& b) {
      b.op("arg_reduce", {b.reals({4, 9})}, {4}, {{"fn", std::string(fn)}, {"dim", int64_t{1}}},
           DType::kInt64);
    });
  cells.add("linalg", "solve", float_forms(), [](CellBuilder& b) {
    b.op("linalg", {b.reals({3, 4, 4}), b.reals({3, 4, 2})}, {3, 4, 2},
         {{"fn", std::string("solve")}});
  });
  cells.add("linalg", "det", float_forms(), [](CellBuilder& b) {
    b.op("linalg", {b.reals({3, 4, 4})}, {3}, {{"fn", std::string("det")}});
  });
  cells.add("linalg", "qr", float_forms(), [](CellBuilder& b) {
    b.op("linalg", {b.reals({3, 5, 4})}, {3, 5, 4}, {{"fn", std::string("qr")}});
    b.second_output({3, 4, 4}, DType::kFloat32);
  });
  for (const char* fn : {"sum", "prod", "logsumexp"})
    cells.add("cumulative", fn, float_forms(), [fn](CellBuilder& b) {
      b.op("cumulative", {b.reals({4, 9})}, {4, 9}, {{"fn", std::string(fn)}});
    });
  for (bool descending : {false, true})
    cells.add("sort", descending ? "descending" : "ascending", float_forms(),
              [descending](CellBuilder& b) {
                b.op("sort", {b.reals({4, 9})}, {4, 9}, {{"descending", descending}});
                b.second_output({4, 9});
              });
  cells.add("topk", "largest", float_forms(), [](CellBuilder& b) {
    b.op("topk", {b.reals({4, 9})}, {4, 3}, {{"k", int64_t{3}}});
    b.second_output({4, 3});
  });
}

}  // namespace octet::conformance

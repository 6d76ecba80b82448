// Cells of pools, resizing and other ops on windows.
#include "backends/conformance/cell_list.h"

namespace octet::conformance {
namespace {

struct Pool {
  const char* name;
  Shape x, kernel, stride, padding;
  bool ceils = false;
};
const Pool kPools[] = {
    {"one", {1, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {"empty", {0, 8, 6, 6}, {2, 2}, {2, 2}, {0, 0}},
    {"2x2", {2, 8, 6, 6}, {2, 2}, {2, 2}, {0, 0}},
    {"odd", {1, 5, 7, 9}, {3, 3}, {2, 2}, {1, 1}},
    {"uneven", {1, 3, 8, 6}, {3, 2}, {1, 2}, {1, 0}},
    {"ceil", {1, 4, 8, 8}, {3, 3}, {2, 2}, {0, 0}, true},
    {"1d", {2, 4, 9}, {3}, {2}, {1}},
    {"3d", {1, 3, 4, 5, 4}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}},
    {"large", {1, 32, 28, 28}, {3, 3}, {2, 2}, {1, 1}},
};

Shape pooled(const Pool& p) {
  Shape y = {p.x[0], p.x[1]};
  for (size_t d = 0; d < p.kernel.size(); ++d) {
    const int64_t reach = p.x[2 + d] + 2 * p.padding[d] - p.kernel[d];
    int64_t size = (reach + (p.ceils ? p.stride[d] - 1 : 0)) / p.stride[d] + 1;
    if (p.ceils && (size - 1) * p.stride[d] >= p.x[2 + d] + p.padding[d]) --size;
    y.push_back(size);
  }
  return y;
}

Attributes attributes_of(const Pool& p) {
  return {{"kernel_size", p.kernel},
          {"stride", p.stride},
          {"padding", p.padding},
          {"ceil_mode", p.ceils}};
}

struct Resize {
  const char* name;
  Shape x, y;
  const char* mode;
  bool aligns = false;
};
const Resize kResizes[] = {
    {"nearest", {1, 3, 4, 5}, {1, 3, 8, 10}, "nearest"},
    {"nearest_exact", {1, 3, 4, 5}, {1, 3, 7, 9}, "nearest_exact"},
    {"bilinear", {2, 5, 4, 6}, {2, 5, 8, 12}, "bilinear"},
    {"bilinear_corners", {1, 4, 5, 5}, {1, 4, 9, 7}, "bilinear", true},
    {"bilinear_smaller", {1, 4, 9, 9}, {1, 4, 4, 5}, "bilinear"},
    {"bicubic", {1, 2, 5, 6}, {1, 2, 10, 9}, "bicubic"},
    {"bilinear_aa", {1, 2, 9, 9}, {1, 2, 4, 4}, "bilinear_aa"},
    {"linear", {1, 3, 7}, {1, 3, 14}, "linear"},
    {"trilinear", {1, 2, 3, 4, 3}, {1, 2, 6, 8, 6}, "trilinear"},
};

std::vector<double> steps_of(const Resize& r) {
  std::vector<double> scales;
  for (size_t d = 2; d < r.x.size(); ++d) {
    const auto in = static_cast<double>(r.x[d]), out = static_cast<double>(r.y[d]);
    scales.push_back(r.aligns ? (in - 1) / (out - 1) : in / out);
  }
  return scales;
}

}  // namespace

void add_windows(CellList& cells) {
  for (const Pool& p : kPools) {
    cells.add(
        "max_pool", p.name, movement_forms(),
        [p](CellBuilder& b) { b.op("max_pool", {b.x(p.x)}, pooled(p), attributes_of(p)); }, true);
    for (bool counts : {true, false})
      cells.add(
          "avg_pool", std::string(p.name) + (counts ? "" : "_without_padding"), compute_forms(),
          [p, counts](CellBuilder& b) {
            Attributes attributes = attributes_of(p);
            attributes["count_include_pad"] = counts;
            b.op("avg_pool", {b.x(p.x)}, pooled(p), attributes);
          },
          counts);
  }
  cells.add("max_pool", "dilated", movement_forms(), [](CellBuilder& b) {
    b.op("max_pool", {b.x({1, 3, 9, 9})}, {1, 3, 5, 5},
         {{"kernel_size", Shape{3, 3}}, {"stride", Shape{1, 1}}, {"dilation", Shape{2, 2}}});
  });
  for (const Shape& size : {Shape{1, 1}, Shape{3, 2}, Shape{6, 8}}) {
    const std::string name = std::to_string(size[0]) + "x" + std::to_string(size[1]);
    cells.add(
        "adaptive_avg_pool", name, compute_forms(),
        [size](CellBuilder& b) {
          b.op("adaptive_avg_pool", {b.x({2, 7, 6, 8})}, {2, 7, size[0], size[1]},
               {{"output_size", size}});
        },
        true);
    cells.add("adaptive_max_pool", name, float_forms(), [size](CellBuilder& b) {
      b.op("adaptive_max_pool", {b.x({2, 7, 6, 8})}, {2, 7, size[0], size[1]},
           {{"output_size", size}});
    });
  }
  const Attributes window = {
      {"kernel_size", Shape{2, 2}}, {"stride", Shape{2, 1}}, {"padding", Shape{0, 1}}};
  cells.add("im2col", "2x2", movement_forms().first(1),
            [=](CellBuilder& b) { b.op("im2col", {b.x({1, 2, 4, 4})}, {1, 8, 10}, window); });
  cells.add("col2im", "2x2", float_forms(), [=](CellBuilder& b) {
    Attributes attributes = window;
    attributes["output_size"] = Shape{4, 4};
    b.op("col2im", {b.x({1, 8, 10})}, {1, 2, 4, 4}, attributes);
  });
  for (const Resize& r : kResizes)
    cells.add("upsample", r.name, compute_forms(), [r](CellBuilder& b) {
      b.op("upsample", {b.x(r.x)}, r.y,
           {{"mode", std::string(r.mode)}, {"align_corners", r.aligns}, {"scales", steps_of(r)}});
    });
  for (const char* mode : {"bilinear", "nearest", "bicubic"})
    for (const char* padding : {"zeros", "border", "reflection"})
      cells.add("grid_sample", std::string(mode) + "_" + padding, float_forms(),
                [=](CellBuilder& b) {
                  const int x = b.reals({1, 2, 5, 6}), grid = b.reals({1, 4, 3, 2}, -1.3f, 1.3f);
                  b.op("grid_sample", {x, grid}, {1, 2, 4, 3},
                       {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}});
                });
}

}  // namespace octet::conformance

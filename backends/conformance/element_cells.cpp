// Cells of ops on single elements, and of conversions.
#include "backends/conformance/cell_list.h"
#include "lowering/program/real_functions.h"

namespace octet::conformance {
namespace {

struct Pair {
  const char* name;
  Shape a, b, y;
  bool is_open = false;
};
const Pair kPairs[] = {
    {"one", {1}, {1}, {1}},
    {"odd", {3, 17}, {3, 17}, {3, 17}, true},
    {"channels", {2, 5, 4, 3}, {1, 5, 1, 1}, {2, 5, 4, 3}},
    {"both", {4, 1, 6}, {5, 1}, {4, 5, 6}},
    {"scalar", {2, 7}, {}, {2, 7}},
    {"large", {2, 16, 32, 32}, {2, 16, 32, 32}, {2, 16, 32, 32}, true},
    {"empty", {0, 7}, {1, 7}, {0, 7}},
};

const Shape kOdd = {2, 3, 5, 7};

void pair(CellBuilder& b, const char* kind, const Pair& p, Attributes attributes = {}) {
  const int left = b.x(p.a);
  const bool divides = std::string(kind) == "div";
  // floats to divide by are not near 0
  const int right = divides && b.is_float() ? b.reals(p.b, 0.5f, 3) : b.x(p.b);
  b.op(kind, {left, right}, p.y, std::move(attributes));
}

void add_conversions(CellList& cells) {
  constexpr DType kF32 = DType::kFloat32;
  struct Range {
    const char* name;
    int64_t low, high;
    int32_t zero_point = 4;
  };
  constexpr Range kRanges[] = {{"whole", -128, 127},
                               {"narrow", -127, 127},
                               {"symmetric", -127, 127, 0},
                               {"reduced", -64, 63},
                               {"uneven", -50, 77}};
  for (const Shape& shape : {Shape{0, 5}, Shape{1}, Shape{3, 17}, Shape{1, 16, 32, 32}}) {
    const std::string size = std::to_string(product(shape));
    for (const Range& r : kRanges)
      for (DType dtype : {DType::kInt8, DType::kUInt8}) {
        const int64_t shift = dtype == DType::kInt8 ? 0 : 128;
        const TensorQParams to = quantized(0.013f, static_cast<int32_t>(shift) + r.zero_point);
        const Attributes range = {{"quant_min", r.low + shift}, {"quant_max", r.high + shift}};
        const std::string name = size + "_" + std::string(short_name_of(dtype)) + "_" + r.name;
        cells.add("quantize", name, float_forms(), [=](CellBuilder& b) {
          b.op("quantize", {b.reals(shape)}, shape, range, dtype, to);
        });
        cells.add("requantize", name, movement_forms().subspan(1), [=](CellBuilder& b) {
          b.op("requantize", {b.x(shape)}, shape, range, dtype, to);
        });
      }
    cells.add("dequantize", size, movement_forms().subspan(1),
              [=](CellBuilder& b) { b.op("dequantize", {b.x(shape)}, shape, {}, kF32); });
  }
  for (DType dtype : {DType::kInt64, DType::kInt32, DType::kBool})
    cells.add("cast", std::string(short_name_of(dtype)), float_forms(),
              [=](CellBuilder& b) { b.op("cast", {b.reals({3, 7})}, {3, 7}, {}, dtype); });
  for (const char* name : {"asymmetric", "symmetric", "symmetric_unclipped", "least_error"})
    for (const Shape& blocks : {Shape{1, 1}, Shape{6, 1}, Shape{6, 4}})
      cells.add("fake_quantize_dynamic", std::string(name) + "_" + std::to_string(product(blocks)),
                float_forms(), [=](CellBuilder& b) {
                  b.op("fake_quantize_dynamic", {b.reals({6, 16})}, {6, 16},
                       mapping(name, -128, 127, blocks));
                });
  for (const char* name : {"symmetric", "symmetric_unclipped"})
    cells.add("quantize_dynamic", name, float_forms(), [=](CellBuilder& b) {
      b.op("quantize_dynamic", {b.reals({6, 16})}, {6, 16},
           {{"mapping", std::string(name)}, {"quant_min", int64_t{-120}}}, DType::kInt8,
           TensorQParams{{1}, {0}});
      b.second_output({6, 1}, DType::kFloat32);
    });
}

}  // namespace

void add_elements(CellList& cells) {
  for (const char* kind : {"add", "sub", "mul", "div", "minimum", "maximum"})
    for (const Pair& p : kPairs)
      cells.add(
          kind, p.name, compute_forms(), [kind, p](CellBuilder& b) { pair(b, kind, p); },
          p.is_open);
  for (const char* kind : {"add", "sub"})
    cells.add(kind, "alpha", compute_forms(),
              [kind](CellBuilder& b) { pair(b, kind, kPairs[1], {{"alpha", 0.7}}); });
  for (const RealFunction& function : real_functions()) {
    const std::string name(function.name);
    cells.add("unary", name, compute_forms(),
              [name](CellBuilder& b) { b.op("unary", {b.x(kOdd)}, kOdd, {{"fn", name}}); });
  }
  cells.add("unary", "empty", compute_forms(), [](CellBuilder& b) {
    b.op("unary", {b.x({0, 5})}, {0, 5}, {{"fn", std::string("sigmoid")}});
  });
  cells.add("clamp", "empty", compute_forms(),
            [](CellBuilder& b) { b.op("clamp", {b.x({3, 0})}, {3, 0}, {{"min", -0.5}}); });
  for (const auto& [name, low, high] :
       {std::tuple{"relu", 0.0, 1e30}, {"relu6", 0.0, 6.0}, {"both", -0.5, 0.7}})
    cells.add("clamp", name, compute_forms(), [low = low, high = high](CellBuilder& b) {
      Attributes range = {{"min", low}};
      if (high < 1e30) range["max"] = high;
      b.op("clamp", {b.x(kOdd)}, kOdd, range);
    });
  for (int64_t count : {1, 3})
    cells.add("prelu", count == 1 ? "one" : "channels", compute_forms(), [count](CellBuilder& b) {
      const int x = b.x(kOdd);
      b.op("prelu", {x, b.constant({count}, 0.1f, 0.4f)}, kOdd);
    });
  for (const char* name : {"eq", "lt", "ge", "pow", "remainder", "fmod", "div_floor", "atan2"})
    cells.add("binary", name, float_forms(), [name](CellBuilder& b) {
      const bool compares = name[2] == '\0';
      const int left = b.reals(kOdd, 0.1f, 3), right = b.reals(kOdd, 0.2f, 3);
      b.op("binary", {left, right}, kOdd, {{"fn", std::string(name)}},
           compares ? DType::kBool : DType::kFloat32);
    });
  cells.add("where", "odd", float_forms(), [](CellBuilder& b) {
    const int condition = b.bools(kOdd), left = b.reals(kOdd), right = b.reals({7});
    b.op("where", {condition, left, right}, kOdd);
  });
  cells.add("rotary", "heads", float_forms(), [](CellBuilder& b) {
    const int x = b.reals({2, 3, 5, 8}), cosine = b.reals({5, 8}), sine = b.reals({5, 8});
    b.op("rotary", {x, cosine, sine}, {2, 3, 5, 8});
  });
  cells.add("copy", "odd", movement_forms(),
            [](CellBuilder& b) { b.op("copy", {b.x(kOdd)}, kOdd); });
  add_conversions(cells);
}

}  // namespace octet::conformance

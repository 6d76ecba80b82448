// Reductions, group_norm, upsample and functions of two tensors on oneDNN against the reference.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

constexpr DType kAll[] = {DType::kUInt8, DType::kInt8, DType::kFloat32};

std::optional<TensorQParams> quant_params(DType dtype, float scale, int shift) {
  if (dtype == DType::kFloat32) return std::nullopt;
  return quantized(scale, dtype == DType::kUInt8 ? 128 + shift : shift);
}

Tensor random_tensor(DType dtype, const Shape& shape, uint32_t seed) {
  return dtype == DType::kFloat32 ? random_floats(shape, -3, 3, seed)
                                  : random_integers(dtype, shape, seed);
}

// With constants as further inputs.
double run(const std::string& kind, DType dtype, const Shape& x_shape, const Shape& y_shape,
           float y_scale, const Attributes& attributes, const std::vector<Tensor>& constants = {}) {
  ProgramBuilder b;
  std::vector<int> inputs = {b.input("x", dtype, x_shape, quant_params(dtype, 0.03f, 5))};
  for (const Tensor& constant : constants)
    inputs.push_back(constant.defined() ? b.constant("c", constant) : -1);
  b.output(b.op(kind, inputs, "y", dtype, y_shape, quant_params(dtype, y_scale, -7), attributes));
  return check_against_reference(b.finish(), "onednn", {random_tensor(dtype, x_shape, 3)});
}

double limit_of(DType dtype) { return dtype == DType::kFloat32 ? 1e-4 : 1; }

Attributes reduction(const std::string& fn, Shape dims, bool keepdim = false) {
  return {{"fn", fn}, {"dims", std::move(dims)}, {"keepdim", keepdim}};
}

}  // namespace

TEST_CASE("oneDNN: reductions over any dimensions equal the reference",
          "[backends][onednn][statistics]") {
  for (DType dtype : kAll) {
    for (const char* fn : {"sum", "max", "min"}) {
      CAPTURE(name_of(dtype), fn);
      CHECK(run("reduce", dtype, {2, 6, 7, 10}, {2, 6}, 0.2f, reduction(fn, {2, 3})) <=
            limit_of(dtype));
      CHECK(run("reduce", dtype, {2, 6, 7, 10}, {6, 10}, 0.2f, reduction(fn, {0, 2})) <=
            limit_of(dtype));
      CHECK(run("reduce", dtype, {2, 6, 7, 40}, {2, 1, 7, 40}, 0.2f, reduction(fn, {1}, true)) <=
            limit_of(dtype));
      CHECK(run("reduce", dtype, {3, 70}, {3}, 0.2f, reduction(fn, {-1})) <= limit_of(dtype));
      CHECK(run("reduce", dtype, {3, 7}, {}, 0.3f, reduction(fn, {})) <= limit_of(dtype));
    }
  }
  Attributes clamped = reduction("sum", {1});
  clamped["post_min"] = 0.0;
  clamped["post_max"] = 6.0;
  CHECK(run("reduce", DType::kFloat32, {3, 7}, {3}, 1, clamped) <= 1e-5);
  CHECK(run("reduce", DType::kFloat32, {3, 7}, {3}, 1, reduction("prod", {1})) <= 1e-3);
}

TEST_CASE("oneDNN: an unknown reduction is refused by name", "[backends][onednn][statistics]") {
  ProgramBuilder b;
  b.output(b.op("reduce", {b.input("x", DType::kFloat32, {3, 7})}, "y", DType::kFloat32, {3}, {},
                reduction("median", {1})));
  for (const char* backend : {"onednn", "reference"})
    CHECK(refusal(b.finish(), backend) == "y: unknown fn \"median\"");
}

TEST_CASE("oneDNN: group_norm equals the reference, alone and between convolutions",
          "[backends][onednn][statistics]") {
  for (DType dtype : kAll) {
    for (int64_t groups : {1, 3, 6}) {
      CAPTURE(name_of(dtype), groups);
      const Attributes attributes = {{"groups", groups}, {"eps", 1e-5}};
      const std::vector<Tensor> parameters = {random_floats({6}, -1, 1, 4),
                                              random_floats({6}, -1, 1, 5)};
      CHECK(run("group_norm", dtype, {2, 6, 5, 9}, {2, 6, 5, 9}, 0.04f, attributes, parameters) <=
            limit_of(dtype));
      CHECK(run("group_norm", dtype, {2, 6, 50}, {2, 6, 50}, 0.04f, attributes,
                {Tensor(), parameters[1]}) <= limit_of(dtype));
      CHECK(run("group_norm", dtype, {5, 6}, {5, 6}, 0.04f, {{"groups", groups}, {"eps", 0.1}}) <=
            limit_of(dtype));
    }
  }
  ProgramBuilder b;  // after a convolution the tensor is channels-last
  const int x = b.input("x", DType::kFloat32, {2, 3, 9, 9});
  const int c = b.op("conv", {x, b.constant("w", random_floats({40, 3, 1, 1})), -1}, "c",
                     DType::kFloat32, {2, 40, 9, 9});
  b.output(b.op("group_norm", {c, b.constant("g", random_floats({40}, -1, 1, 4)), -1}, "y",
                DType::kFloat32, {2, 40, 9, 9}, {}, {{"groups", int64_t{5}}}));
  CHECK(check_against_reference(b.finish(), "onednn", {random_floats({2, 3, 9, 9})}) <= 1e-4);
}

TEST_CASE("oneDNN: upsample equals the reference within a step", "[backends][onednn][statistics]") {
  for (DType dtype : kAll) {
    for (const char* mode : {"nearest", "bilinear"}) {
      CAPTURE(name_of(dtype), mode);
      const auto attributes = [&](bool align, double v, double h) {
        return Attributes{{"mode", std::string(mode)},
                          {"align_corners", align},
                          {"scales", std::vector<double>{v, h}}};
      };
      CHECK(run("upsample", dtype, {2, 5, 4, 6}, {2, 5, 8, 12}, 0.03f,
                attributes(false, 0.5, 0.5)) <= limit_of(dtype));
      CHECK(run("upsample", dtype, {1, 70, 4, 6}, {1, 70, 9, 5}, 0.05f,
                attributes(false, 4.0 / 9, 6.0 / 5)) <= limit_of(dtype));
    }
    CHECK(run("upsample", dtype, {1, 3, 4, 6}, {1, 3, 7, 11}, 0.03f,
              {{"mode", std::string("bilinear")},
               {"align_corners", true},
               {"scales", std::vector<double>{0.5, 0.5}}}) <= limit_of(dtype));
  }
}

TEST_CASE("oneDNN: division, extremes of two tensors and prelu equal the reference",
          "[backends][onednn][statistics]") {
  for (DType dtype : kAll) {
    for (const char* kind : {"div", "minimum", "maximum"}) {
      for (const std::pair<Shape, Shape>& shapes :
           std::vector<std::pair<Shape, Shape>>{{{2, 5, 7}, {2, 5, 7}},
                                                {{2, 5, 7}, {5, 1}},
                                                {{7}, {2, 5, 7}},
                                                {{2, 1, 7}, {5, 1}},
                                                {{2, 5, 7}, {}}}) {
        CAPTURE(name_of(dtype), kind, shapes.first, shapes.second);
        ProgramBuilder b;
        const int u = b.input("u", dtype, shapes.first, quant_params(dtype, 0.03f, 5));
        const int v =
            b.input("v", dtype, shapes.second,
                    dtype == DType::kFloat32 ? std::nullopt : std::optional(quantized(0.01f, 0)));
        b.output(b.op(kind, {u, v}, "y", dtype, {2, 5, 7}, quant_params(dtype, 0.04f, 3),
                      {{"post_min", -1.0}}));
        const Tensor divisors = dtype == DType::kFloat32
                                    ? random_floats(shapes.second, 0.5f, 2, 4)
                                    : random_integers(dtype, shapes.second, 4, 20, 100);
        CHECK(check_against_reference(b.finish(), "onednn",
                                      {random_tensor(dtype, shapes.first, 3), divisors}) <=
              limit_of(dtype));
      }
    }
    CHECK(run("prelu", dtype, {2, 6, 4, 5}, {2, 6, 4, 5}, 0.04f, {},
              {random_floats({6}, -1, 1, 4)}) <= limit_of(dtype));
    CHECK(run("prelu", dtype, {2, 6}, {2, 6}, 0.04f, {}, {random_floats({1}, 0.1f, 0.2f, 4)}) <=
          limit_of(dtype));
  }
}

}  // namespace octet

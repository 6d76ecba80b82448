// What oneDNN fuses into the end of a matrix product: functions, residual additions, masks,
// quantization. The reference runs each separately.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

Attributes function(const std::string& fn) { return {{"fn", fn}}; }

// x [2, 6, 32] -> linear [2, 6, 24], integer or float.
int add_linear(ProgramBuilder& b, bool is_integer) {
  const int bias = b.constant("b", random_floats({24}, -1, 1, 5));
  if (!is_integer) {
    const int x = b.input("x", DType::kFloat32, {2, 6, 32});
    return b.op("linear", {x, b.constant("w", random_floats({24, 32})), bias}, "linear",
                DType::kFloat32, {2, 6, 24});
  }
  const int x = b.input("x", DType::kUInt8, {2, 6, 32}, quantized(0.02f, 100));
  const int w =
      b.constant("w", random_integers(DType::kInt8, {24, 32}), per_channel(random_scales(24), 0));
  return b.op("linear", {x, w, bias}, "linear", DType::kFloat32, {2, 6, 24});
}

Tensor first_input(bool is_integer) {
  return is_integer ? random_integers(DType::kUInt8, {2, 6, 32}) : random_floats({2, 6, 32});
}

}  // namespace

TEST_CASE("oneDNN: a function and a quantization after linear join it",
          "[backends][onednn][followers][tanh]") {
  for (bool is_integer : {false, true}) {
    for (const char* fn : {"gelu", "gelu_tanh", "silu", "tanh"}) {
      for (DType dtype : {DType::kFloat32, DType::kUInt8, DType::kInt8}) {
        CAPTURE(is_integer, fn, name_of(dtype));
        ProgramBuilder b;
        int y = b.op("unary", {add_linear(b, is_integer)}, "y", DType::kFloat32, {2, 6, 24}, {},
                     function(fn));
        if (dtype != DType::kFloat32)
          y = b.op("quantize", {y}, "q", dtype, {2, 6, 24},
                   quantized(0.03f, dtype == DType::kUInt8 ? 90 : -38));
        b.output(y);
        CHECK(check_against_reference(b.finish(), "onednn", {first_input(is_integer)}) <=
              (dtype == DType::kFloat32 ? 2e-3 : 1));
      }
    }
  }
}

TEST_CASE("oneDNN: residuals and masks of every broadcast join a product",
          "[backends][onednn][followers]") {
  for (bool is_integer : {false, true}) {
    for (const Shape& shape :
         {Shape{2, 6, 24}, Shape{24}, Shape{}, Shape{1, 1, 24}, Shape{2, 1, 24}, Shape{6, 1}}) {
      for (const char* kind : {"add", "mul"}) {
        CAPTURE(is_integer, shape, kind);
        ProgramBuilder b;
        const int y = add_linear(b, is_integer);
        const int r = b.input("r", DType::kFloat32, shape);
        b.output(b.op(kind, {r, y}, "y", DType::kFloat32, {2, 6, 24}, {}, {{"post_min", -0.5}}));
        CHECK(check_against_reference(b.finish(), "onednn",
                                      {first_input(is_integer), random_floats(shape, -1, 1, 9)}) <=
              1e-4);
      }
    }
  }
}

// conv(x) in floats + dequantize(r), clamped, quantized: the result of a quantizer that quantizes
// one summand only.
TEST_CASE(
    "oneDNN: a convolution takes a dequantized summand, the clamp after the sum and the "
    "quantization",
    "[backends][onednn][followers]") {
  for (DType dtype : {DType::kUInt8, DType::kInt8}) {
    for (bool relu : {false, true}) {
      for (int64_t groups : {1, 16}) {
        CAPTURE(name_of(dtype), relu, groups);
        const int low = dtype == DType::kUInt8 ? 0 : -128;
        const Shape shape = {2, 16, 7, 5};
        ProgramBuilder b;
        const int x = b.input("x", dtype, shape, quantized(0.02f, low + 100));
        const int r = b.input("r", dtype, shape, quantized(0.03f, low + 117));
        const int real = b.op("dequantize", {r}, "real", DType::kFloat32, shape);
        const int w = b.constant("w", random_integers(DType::kInt8, {16, 16 / groups, 3, 3}),
                                 per_channel(random_scales(16), 0));
        const int conv = b.op("conv", {x, w, b.constant("bias", random_floats({16}, -1, 1, 5))},
                              "conv", DType::kFloat32, shape, {},
                              {{"stride", ints({1, 1})},
                               {"padding", ints({1, 1})},
                               {"dilation", ints({1, 1})},
                               {"groups", groups}});
        const int sum =
            b.op("add", {conv, real}, "sum", DType::kFloat32, shape, {},
                 relu ? Attributes{{"post_min", 0.0}, {"post_max", 6.0}} : Attributes{});
        b.output(
            b.op("quantize", {sum}, "y", dtype, shape, quantized(0.04f, relu ? low : low + 130)));
        CHECK(check_against_reference(
                  b.finish(), "onednn",
                  {random_integers(dtype, shape), random_integers(dtype, shape, 2)}) <= 1);
      }
    }
  }
}

TEST_CASE("oneDNN: a dequantized tensor that several ops read is there for each of them",
          "[backends][onednn][followers]") {
  const Shape shape = {1, 8, 6, 6};
  ProgramBuilder b;
  const int x = b.input("x", DType::kUInt8, shape, quantized(0.02f, 100));
  const int real = b.op("dequantize", {x}, "real", DType::kFloat32, shape);
  const int w = b.constant("w", random_integers(DType::kInt8, {8, 8, 1, 1}),
                           per_channel(random_scales(8), 0));
  const int conv = b.op("conv", {x, w, -1}, "conv", DType::kFloat32, shape, {},
                        {{"stride", ints({1, 1})},
                         {"padding", ints({0, 0})},
                         {"dilation", ints({1, 1})},
                         {"groups", int64_t{1}}});
  const int sum = b.op("add", {real, conv}, "sum", DType::kFloat32, shape);
  b.output(b.op("quantize", {sum}, "y", DType::kUInt8, shape, quantized(0.05f, 90)));
  b.output(b.op("unary", {real}, "gelu", DType::kFloat32, shape, {}, function("gelu")));
  b.output(real);
  CHECK(check_against_reference(b.finish(), "onednn", {random_integers(DType::kUInt8, shape)}) <=
        1);
}

TEST_CASE("oneDNN: attention scores are scaled and masked in the product",
          "[backends][onednn][followers]") {
  for (const Shape& mask :
       {Shape{1, 1, 1, 20}, Shape{1, 1, 12, 20}, Shape{2, 1, 1, 20}, Shape{2, 3, 12, 20}}) {
    CAPTURE(mask);
    ProgramBuilder b;
    const int q = b.input("q", DType::kFloat32, {2, 3, 12, 16});
    const int k = b.input("k", DType::kFloat32, {2, 3, 16, 20});
    const int m = b.input("m", DType::kFloat32, mask);
    Tensor scale = Tensor::zeros(DType::kFloat32, {});
    *scale.data<float>() = 0.25f;
    const Shape shape = {2, 3, 12, 20};
    const int scores = b.op("matmul", {q, k}, "scores", DType::kFloat32, shape);
    const int scaled =
        b.op("mul", {scores, b.constant("scale", scale)}, "scaled", DType::kFloat32, shape);
    b.output(b.op("softmax", {b.op("add", {scaled, m}, "masked", DType::kFloat32, shape)}, "y",
                  DType::kFloat32, shape, {}, {{"dim", int64_t{-1}}}));
    CHECK(check_against_reference(b.finish(), "onednn",
                                  {random_floats({2, 3, 12, 16}), random_floats({2, 3, 16, 20}),
                                   random_floats(mask)}) <= 1e-5);
  }
}

TEST_CASE("oneDNN: a product reads heads where they lie", "[backends][onednn][followers]") {
  for (DType dtype : {DType::kFloat32, DType::kUInt8}) {
    CAPTURE(name_of(dtype));
    const auto quant_params = [&](int zero_point) {
      return dtype == DType::kFloat32 ? std::optional<TensorQParams>()
                                      : quantized(0.02f, zero_point);
    };
    ProgramBuilder b;
    const int q = b.input("q", dtype, {2, 12, 3, 16}, quant_params(120));
    const int k = b.input("k", dtype, {2, 20, 3, 16}, quant_params(131));
    const int rows = b.op("permute", {q}, "rows", dtype, {2, 3, 12, 16}, quant_params(120),
                          {{"dims", ints({0, 2, 1, 3})}});
    const int columns = b.op("permute", {k}, "columns", dtype, {2, 3, 16, 20}, quant_params(131),
                             {{"dims", ints({0, 2, 3, 1})}});
    b.output(b.op("matmul", {rows, columns}, "y", DType::kFloat32, {2, 3, 12, 20}));
    const auto fill = [&](const Shape& shape, uint32_t seed) {
      return dtype == DType::kFloat32 ? random_floats(shape, -1, 1, seed)
                                      : random_integers(dtype, shape, seed);
    };
    CHECK(check_against_reference(b.finish(), "onednn",
                                  {fill({2, 12, 3, 16}, 1), fill({2, 20, 3, 16}, 2)}) <= 1e-4);
  }
}

TEST_CASE("oneDNN: what others read too, or the caller, is still written",
          "[backends][onednn][followers][tanh]") {
  ProgramBuilder b;
  const int y = add_linear(b, true);
  const int g = b.op("unary", {y}, "g", DType::kFloat32, {2, 6, 24}, {}, function("silu"));
  const int s = b.op("add", {y, g}, "s", DType::kFloat32, {2, 6, 24});
  const int square = b.op("mul", {s, s}, "square", DType::kFloat32, {2, 6, 24});
  const int late =
      b.op("unary", {square}, "late", DType::kFloat32, {2, 6, 24}, {}, function("tanh"));
  b.output(s);
  b.output(late);
  CHECK(check_against_reference(b.finish(), "onednn", {first_input(true)}) <= 1e-4);
}

TEST_CASE("oneDNN: a product waits for a summand that is made later",
          "[backends][onednn][followers][tanh]") {
  ProgramBuilder b;
  const int y = add_linear(b, false);
  const int x = b.input("r", DType::kFloat32, {2, 6, 24});
  const int r = b.op("unary", {x}, "late", DType::kFloat32, {2, 6, 24}, {}, function("tanh"));
  b.output(b.op("add", {y, r}, "s", DType::kFloat32, {2, 6, 24}));
  CHECK(check_against_reference(b.finish(), "onednn",
                                {first_input(false), random_floats({2, 6, 24}, -1, 1, 9)}) <= 1e-4);
}

// main(x) + projection(x), in either order in the program, with each end of a residual block.
TEST_CASE("oneDNN: two convolutions of one sum, whichever comes first",
          "[backends][onednn][followers]") {
  const Shape shape = {2, 16, 6, 6};
  for (const char* types : {"floats", "integers", "one summand quantized"}) {
    for (bool main_first : {false, true}) {
      CAPTURE(types, main_first);
      const bool is_integer = std::string(types) != "floats",
                 quantizes_one = std::string(types) == "one summand quantized";
      ProgramBuilder b;
      const int x = is_integer ? b.input("x", DType::kUInt8, shape, quantized(0.02f, 100))
                               : b.input("x", DType::kFloat32, shape);
      const auto add_conv = [&](const std::string& name, int64_t kernel, bool quantizes) {
        const Shape kernels = {16, 16, kernel, kernel};
        const int w = is_integer ? b.constant(name + "_w", random_integers(DType::kInt8, kernels),
                                              per_channel(random_scales(16), 0))
                                 : b.constant(name + "_w", random_floats(kernels, -0.1f, 0.1f));
        const Attributes geometry = {{"stride", ints({1, 1})},
                                     {"padding", ints({kernel / 2, kernel / 2})},
                                     {"dilation", ints({1, 1})},
                                     {"groups", int64_t{1}}};
        if (!quantizes) return b.op("conv", {x, w, -1}, name, DType::kFloat32, shape, {}, geometry);
        const int y =
            b.op("conv", {x, w, -1}, name, DType::kUInt8, shape, quantized(0.03f, 120), geometry);
        return b.op("dequantize", {y}, name + "_real", DType::kFloat32, shape);
      };
      const int first =
          main_first ? add_conv("main", 3, false) : add_conv("projection", 1, quantizes_one);
      const int second =
          main_first ? add_conv("projection", 1, quantizes_one) : add_conv("main", 3, false);
      const int sum =
          b.op("add", {first, second}, "sum", DType::kFloat32, shape, {}, {{"post_min", 0.0}});
      b.output(is_integer ? b.op("quantize", {sum}, "y", DType::kUInt8, shape, quantized(0.05f, 0))
                          : sum);
      const Tensor input =
          is_integer ? random_integers(DType::kUInt8, shape) : random_floats(shape);
      CHECK(check_against_reference(b.finish(), "onednn", {input}) <= (is_integer ? 1 : 1e-4));
    }
  }
}

TEST_CASE("oneDNN: functions after a convolution join it", "[backends][onednn][followers]") {
  const Shape shape = {1, 16, 5, 5};
  for (const char* fn : {"silu", "hardswish", "gelu"}) {
    for (int64_t groups : {1, 16}) {
      for (bool is_integer : {false, true}) {
        CAPTURE(fn, groups, is_integer);
        ProgramBuilder b;
        const int x = is_integer ? b.input("x", DType::kUInt8, shape, quantized(0.02f, 100))
                                 : b.input("x", DType::kFloat32, shape);
        const Shape kernels = {16, 16 / groups, 3, 3};
        const int w = is_integer ? b.constant("w", random_integers(DType::kInt8, kernels),
                                              per_channel(random_scales(16), 0))
                                 : b.constant("w", random_floats(kernels, -0.1f, 0.1f));
        const int conv = b.op("conv", {x, w, -1}, "conv", DType::kFloat32, shape, {},
                              {{"stride", ints({1, 1})},
                               {"padding", ints({1, 1})},
                               {"dilation", ints({1, 1})},
                               {"groups", groups}});
        const int y = b.op("unary", {conv}, "y", DType::kFloat32, shape, {}, function(fn));
        b.output(is_integer ? b.op("quantize", {y}, "q", DType::kUInt8, shape, quantized(0.03f, 90))
                            : y);
        const Tensor input =
            is_integer ? random_integers(DType::kUInt8, shape) : random_floats(shape);
        CHECK(check_against_reference(b.finish(), "onednn", {input}) <= (is_integer ? 1 : 2e-3));
      }
    }
  }
}

}  // namespace octet

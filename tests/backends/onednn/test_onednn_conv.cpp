// Compares oneDNN's convolutions and matrix products with the reference over many shapes: integers
// differ by at most one output step.
#include <cmath>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/runtime/session.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

struct ConvCase {
  int64_t n, c, o, h, w, kernel, stride, padding, dilation, groups;
};

// clang-format off
const ConvCase kConvCases[] = {
    // n  c   o   h   w  k  s  p  d  groups
    {1,  8,  8,  7,  9, 3, 1, 1, 1, 1},
    {2,  3,  5, 17, 13, 3, 2, 1, 1, 1},
    {1, 16, 24,  7,  7, 1, 1, 0, 1, 1},
    {1, 13,  7,  6,  5, 1, 2, 0, 1, 1},
    {1,  4,  6, 15, 15, 5, 1, 2, 1, 1},
    {1,  8, 12, 15, 15, 3, 1, 0, 2, 4},
    {1, 12, 12,  7,  9, 3, 1, 1, 1, 12},
    {3, 33, 33,  8,  8, 3, 2, 1, 1, 33},
    {1, 20, 20, 11, 11, 5, 1, 2, 1, 20},
    {1,  6,  6, 20, 20, 3, 1, 3, 3, 6},
    {2, 64, 64, 10, 10, 3, 1, 1, 1, 1},
    {1, 48, 96,  9,  9, 3, 2, 1, 1, 2},
    {1,  1,  7,  9,  9, 3, 1, 1, 1, 1},
    {1, 32, 10,  1,  1, 1, 1, 0, 1, 1},
    // the custom kernels: blocks of 64 and of 16 channels, bands of rows, tiles of columns, images
    {2, 70, 70,  8,  9, 3, 1, 1, 1, 70},
    {1, 80, 80,  9, 11, 5, 2, 2, 1, 80},
    {1, 64, 64, 15, 15, 7, 1, 3, 1, 64},
    {1, 64, 64,  4, 130, 5, 1, 2, 1, 64},
    {1, 144, 144, 5, 6, 3, 2, 1, 1, 144},
    {1, 24, 24,  6,  6, 2, 1, 0, 1, 24},
    {2,  3, 40, 19, 23, 7, 2, 3, 1, 1},
    {1,  4,  8,  2, 1200, 7, 1, 3, 1, 1},
    {1,  4, 112, 12, 12, 4, 4, 0, 1, 1},
    {2, 20, 75,  3,  9, 1, 1, 0, 1, 1},
    {1, 132, 64, 14, 14, 1, 1, 0, 1, 1},
};
// clang-format on

// How one convolution is quantized.
struct Numbers {
  DType in, out;
  bool per_channel_weight, integer_bias;
};

const Numbers kNumbers[] = {
    {DType::kUInt8, DType::kUInt8, true, false},   {DType::kInt8, DType::kInt8, true, true},
    {DType::kInt8, DType::kUInt8, false, true},    {DType::kUInt8, DType::kFloat32, true, false},
    {DType::kInt8, DType::kFloat32, false, false},
};

// spatial: 1, 2 or 3 dimensions; the third is as long as the second.
double run_conv(const ConvCase& k, const Numbers& numbers, size_t spatial, bool transposed,
                Attributes extra, uint32_t seed) {
  ProgramBuilder b;
  const Shape sizes = {k.h, k.w, 5};
  Shape in{k.n, k.c}, out{k.n, k.o};
  Shape weight = transposed ? Shape{k.c, k.o / k.groups} : Shape{k.o, k.c / k.groups};
  for (size_t i = 0; i < spatial; ++i) {
    in.push_back(sizes[i]);
    weight.push_back(k.kernel);
    const int64_t reach = k.dilation * (k.kernel - 1) + 1;
    out.push_back(transposed ? (sizes[i] - 1) * k.stride - 2 * k.padding + reach
                             : (sizes[i] + 2 * k.padding - reach) / k.stride + 1);
    if (out.back() < 1) return 0;
  }
  const int zero_point = numbers.in == DType::kUInt8 ? 121 : -7;
  const float scale = 0.02f;
  const int x = b.input("x", numbers.in, in, quantized(scale, zero_point));
  const TensorQParams wq =
      numbers.per_channel_weight
          ? per_channel(random_scales(static_cast<size_t>(k.o), 0.001f, 0.01f, seed), 0)
          : quantized(0.005f, 0);
  const int w = b.constant("w", random_integers(DType::kInt8, weight, seed + 1, -127, 127), wq);
  TensorQParams bq = wq;
  for (float& s : bq.scale) s *= scale;
  if (numbers.per_channel_weight) bq.axis = 0;
  const int bias =
      numbers.integer_bias
          ? b.constant("b", random_integers(DType::kInt32, {k.o}, seed + 2, -3000, 3000), bq)
          : b.constant("b", random_floats({k.o}, -1, 1, seed + 2));
  extra["stride"] = ints(Shape(spatial, k.stride));
  extra["padding"] = ints(Shape(spatial, k.padding));
  extra["dilation"] = ints(Shape(spatial, k.dilation));
  if (transposed) extra["output_padding"] = ints(Shape(spatial, 0));
  extra["groups"] = k.groups;
  const float fan_in = static_cast<float>(product(weight) / weight[0]);
  const bool is_float = numbers.out == DType::kFloat32;
  const int y =
      b.op(transposed ? "conv_transpose" : "conv", {x, w, bias}, "y", numbers.out, out,
           is_float ? std::optional<TensorQParams>()
                    : quantized(0.02f * std::sqrt(fan_in), numbers.out == DType::kUInt8 ? 124 : -4),
           extra);
  b.output(y);
  return check_against_reference(b.finish(), "onednn", {random_integers(numbers.in, in, seed + 3)});
}

double limit_of(const Numbers& numbers) { return numbers.out == DType::kFloat32 ? 1e-3 : 1; }

// x @ w.T + bias for x [rows..., in].
double run_linear(Shape rows, int64_t in, int64_t out, const Numbers& numbers, bool with_bias,
                  Attributes extra, uint32_t seed) {
  ProgramBuilder b;
  Shape x_shape = rows, y_shape = rows;
  x_shape.push_back(in);
  y_shape.push_back(out);
  const int x =
      b.input("x", numbers.in, x_shape, quantized(0.02f, numbers.in == DType::kUInt8 ? 100 : 9));
  const TensorQParams wq =
      numbers.per_channel_weight
          ? per_channel(random_scales(static_cast<size_t>(out), 0.001f, 0.01f, seed), 0)
          : quantized(0.005f, 0);
  const int w = b.constant("w", random_integers(DType::kInt8, {out, in}, seed, -127, 127), wq);
  const int bias = with_bias ? b.constant("b", random_floats({out}, -1, 1, seed + 2)) : -1;
  const bool is_float = numbers.out == DType::kFloat32;
  const int y = b.op("linear", {x, w, bias}, "y", numbers.out, y_shape,
                     is_float ? std::optional<TensorQParams>()
                              : quantized(0.05f, numbers.out == DType::kUInt8 ? 90 : -20),
                     extra);
  b.output(y);
  return check_against_reference(b.finish(), "onednn",
                                 {random_integers(numbers.in, x_shape, seed + 3)});
}

}  // namespace

TEST_CASE("oneDNN: integer convolutions stay within a step of the reference",
          "[backends][onednn]") {
  uint32_t seed = 10;
  for (const ConvCase& k : kConvCases) {
    for (const Numbers& numbers : kNumbers) {
      for (size_t spatial : {1, 2, 3}) {
        CAPTURE(k.n, k.c, k.o, k.kernel, k.stride, k.padding, k.dilation, k.groups, spatial,
                name_of(numbers.in), name_of(numbers.out), numbers.per_channel_weight);
        CHECK(run_conv(k, numbers, spatial, false, {}, seed) <= limit_of(numbers));
        seed += 5;
      }
    }
  }
}

TEST_CASE("oneDNN: the clamp of a convolution is applied before its quantization",
          "[backends][onednn]") {
  for (const Numbers& numbers : kNumbers) {
    CAPTURE(name_of(numbers.in), name_of(numbers.out));
    CHECK(run_conv(kConvCases[0], numbers, 2, false, {{"post_min", 0.0}}, 3) <= limit_of(numbers));
    CHECK(run_conv(kConvCases[10], numbers, 2, false, {{"post_min", 0.0}, {"post_max", 6.0}}, 4) <=
          limit_of(numbers));
    CHECK(run_conv(kConvCases[6], numbers, 2, false, {{"post_min", -1.5}, {"post_max", 0.75}}, 5) <=
          limit_of(numbers));
    CHECK(run_conv(kConvCases[2], numbers, 2, false, {{"post_max", 0.3}}, 6) <= limit_of(numbers));
  }
}

TEST_CASE("oneDNN: integer transposed convolutions stay within a step of the reference",
          "[backends][onednn]") {
  uint32_t seed = 900;
  const ConvCase cases[] = {
      {1, 8, 6, 5, 7, 3, 2, 1, 1, 1},
      {2, 16, 16, 4, 4, 2, 2, 0, 1, 1},
      {1, 8, 12, 5, 5, 3, 1, 1, 1, 4},
      {1, 5, 3, 6, 6, 4, 2, 1, 1, 1},
  };
  for (const ConvCase& k : cases) {
    for (const Numbers& numbers : kNumbers) {
      if (numbers.per_channel_weight) continue;
      for (size_t spatial : {1, 2}) {
        CAPTURE(k.c, k.o, k.groups, k.kernel, spatial, name_of(numbers.in), name_of(numbers.out));
        CHECK(run_conv(k, numbers, spatial, true, {}, seed) <= limit_of(numbers));
        seed += 5;
      }
    }
  }
}

TEST_CASE("oneDNN: integer linear layers stay within a step of the reference",
          "[backends][onednn]") {
  uint32_t seed = 50;
  for (const Shape& rows : {Shape{1}, Shape{}, Shape{5}, Shape{2, 3}, Shape{2, 3, 4}}) {
    for (const Numbers& numbers : kNumbers) {
      CAPTURE(rows, name_of(numbers.in), name_of(numbers.out));
      CHECK(run_linear(rows, 32, 10, numbers, true, {}, seed) <= limit_of(numbers));
      CHECK(run_linear(rows, 17, 33, numbers, false, {{"post_min", 0.0}}, seed + 1) <=
            limit_of(numbers));
      seed += 5;
    }
  }
}

TEST_CASE("oneDNN: zeros times integers are exact zeros", "[backends][onednn]") {
  const auto check = [](const std::string& kind, DType dtype, Shape x_shape, Shape w_shape,
                        Shape y_shape, const Attributes& attributes) {
    CAPTURE(kind, name_of(dtype));
    const int zero_point = dtype == DType::kUInt8 ? 121 : -7;
    ProgramBuilder b;
    const int x = b.input("x", dtype, x_shape, quantized(0.0173f, zero_point));
    const int w = b.constant("w", random_integers(DType::kInt8, w_shape, 3, -127, 127),
                             per_channel(random_scales(static_cast<size_t>(w_shape[0])), 0));
    b.output(b.op(kind, {x, w, -1}, "y", DType::kFloat32, y_shape, {}, attributes));
    Session session(with_one_segment(b.finish(), "onednn"), 1);
    const Tensor zeros = random_integers(dtype, x_shape, 1, zero_point, zero_point);
    const Tensor y = session.run({zeros}).front();
    for (int64_t i = 0; i < y.numel(); ++i) REQUIRE(y.data<float>()[i] == 0);
  };
  const Attributes conv = {{"stride", ints({1, 1})},
                           {"padding", ints({1, 1})},
                           {"dilation", ints({1, 1})},
                           {"groups", int64_t{1}}};
  for (DType dtype : {DType::kUInt8, DType::kInt8}) {
    check("linear", dtype, {5, 64}, {48, 64}, {5, 48}, {});
    check("conv", dtype, {1, 16, 7, 7}, {32, 16, 3, 3}, {1, 32, 7, 7}, conv);
  }
}

TEST_CASE("oneDNN: weights without integer activations run as floats", "[backends][onednn]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {4, 16});
  const int w = b.constant("w", random_integers(DType::kInt8, {8, 16}, 1, -127, 127),
                           per_channel(random_scales(8), 0));
  b.output(b.op("linear", {x, w, -1}, "y", DType::kFloat32, {4, 8}));
  CHECK(check_against_reference(b.finish(), "onednn", {random_floats({4, 16})}) < 1e-4);
}

TEST_CASE("oneDNN: products of two integer activations stay within a step of the reference",
          "[backends][onednn]") {
  for (DType dtype : {DType::kUInt8, DType::kInt8}) {
    const int zero_point = dtype == DType::kUInt8 ? 120 : -3;
    for (const Shape& batch : {Shape{}, Shape{3}, Shape{2, 2}}) {
      ProgramBuilder b;
      Shape a_shape = batch, b_shape = batch, y_shape = batch;
      a_shape.insert(a_shape.end(), {7, 16});
      b_shape.insert(b_shape.end(), {16, 9});
      y_shape.insert(y_shape.end(), {7, 9});
      const int a = b.input("a", dtype, a_shape, quantized(0.02f, zero_point));
      const int c = b.input("c", dtype, b_shape, quantized(0.03f, zero_point + 5));
      b.output(b.op("matmul", {a, c}, "y", dtype, y_shape, quantized(0.2f, zero_point + 1)));
      CAPTURE(name_of(dtype), batch);
      CHECK(check_against_reference(
                b.finish(), "onednn",
                {random_integers(dtype, a_shape, 4), random_integers(dtype, b_shape, 5)}) <= 1);
    }
  }
}

TEST_CASE("oneDNN: float convolutions and products equal the reference", "[backends][onednn]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 6, 9, 9});
  const int w = b.constant("w", random_floats({8, 3, 3, 3}, -1, 1, 7));
  const int bias = b.constant("b", random_floats({8}, -1, 1, 8));
  const int y = b.op("conv", {x, w, bias}, "y", DType::kFloat32, {2, 8, 5, 5}, {},
                     {{"stride", ints({2, 2})},
                      {"padding", ints({1, 1})},
                      {"dilation", ints({1, 1})},
                      {"groups", int64_t{2}},
                      {"post_min", 0.0}});
  const int z = b.op("matmul", {y, y}, "z", DType::kFloat32, {2, 8, 5, 5});
  b.output(z);
  CHECK(check_against_reference(b.finish(), "onednn", {random_floats({2, 6, 9, 9})}) < 1e-3);
}

}  // namespace octet

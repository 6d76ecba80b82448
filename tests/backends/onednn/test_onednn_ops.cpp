// Compares the other ops of oneDNN with the reference: elementwise, pooling, normalization, data
// movement.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

constexpr DType kIntegers[] = {DType::kUInt8, DType::kInt8};

int zero_point_of(DType dtype, int shift) { return dtype == DType::kUInt8 ? 128 + shift : shift; }

// A tensor of the dtype, quantized when it is an integer.
std::optional<TensorQParams> quant_params(DType dtype, float scale, int shift) {
  return dtype == DType::kFloat32 ? std::optional<TensorQParams>()
                                  : quantized(scale, zero_point_of(dtype, shift));
}

Tensor random_tensor(DType dtype, const Shape& shape, uint32_t seed) {
  return dtype == DType::kFloat32 ? random_floats(shape, -3, 3, seed)
                                  : random_integers(dtype, shape, seed);
}

// The greatest difference of a one-input op.
double run_one(const std::string& kind, DType in, const Shape& in_shape, DType out,
               const Shape& out_shape, Attributes attributes, bool same_quant_params = false,
               float scale = 0.03f) {
  ProgramBuilder b;
  const int x = b.input("x", in, in_shape, quant_params(in, 0.03f, 5));
  b.output(b.op(kind, {x}, "y", out, out_shape,
                same_quant_params ? quant_params(out, 0.03f, 5) : quant_params(out, scale, -11),
                attributes));
  return check_against_reference(b.finish(), "onednn", {random_tensor(in, in_shape, 3)});
}

double run_two(const std::string& kind, DType dtype, const Shape& a_shape, const Shape& b_shape,
               const Shape& y_shape, Attributes attributes) {
  ProgramBuilder b;
  const int x = b.input("a", dtype, a_shape, quant_params(dtype, 0.03f, 5));
  const int z = b.input("b", dtype, b_shape, quant_params(dtype, 0.02f, -40));
  b.output(b.op(kind, {x, z}, "y", dtype, y_shape, quant_params(dtype, 0.06f, 3), attributes));
  return check_against_reference(
      b.finish(), "onednn", {random_tensor(dtype, a_shape, 3), random_tensor(dtype, b_shape, 4)});
}

double limit_of(DType dtype) { return dtype == DType::kFloat32 ? 1e-4 : 1; }

constexpr DType kAll[] = {DType::kUInt8, DType::kInt8, DType::kFloat32};

}  // namespace

TEST_CASE("oneDNN: add, sub and mul with broadcasting equal the reference within a step",
          "[backends][onednn]") {
  for (const char* kind : {"add", "sub", "mul"}) {
    for (DType dtype : kAll) {
      CAPTURE(kind, name_of(dtype));
      CHECK(run_two(kind, dtype, {2, 5, 7, 3}, {2, 5, 7, 3}, {2, 5, 7, 3}, {}) <= limit_of(dtype));
      CHECK(run_two(kind, dtype, {2, 5, 7, 3}, {2, 5, 1, 1}, {2, 5, 7, 3}, {{"post_min", 0.0}}) <=
            limit_of(dtype));
      CHECK(run_two(kind, dtype, {2, 40}, {40}, {2, 40}, {{"post_min", -0.5}, {"post_max", 1.0}}) <=
            limit_of(dtype));
      CHECK(run_two(kind, dtype, {3, 4, 6}, {1}, {3, 4, 6}, {}) <= limit_of(dtype));
      CHECK(run_two(kind, dtype, {5, 1, 1}, {2, 5, 7, 3}, {2, 5, 7, 3}, {}) <= limit_of(dtype));
      CHECK(run_two(kind, dtype, {}, {2, 1, 7, 3}, {2, 1, 7, 3}, {}) <= limit_of(dtype));
      if (std::string(kind) != "mul")
        CHECK(run_two(kind, dtype, {2, 40}, {2, 40}, {2, 40}, {{"alpha", 0.5}}) <= limit_of(dtype));
    }
  }
}

TEST_CASE("oneDNN: clamps and functions of integers are tables, of floats close",
          "[backends][onednn][tanh]") {
  const char* functions[] = {"sigmoid",   "tanh",       "hardswish", "hardsigmoid", "silu", "gelu",
                             "gelu_tanh", "leaky_relu", "elu",       "exp",         "neg",  "abs",
                             "mish",      "square",     "erf",       "softplus",    "sin",  "pow"};
  for (DType dtype : kAll) {
    for (const char* fn : functions) {
      Attributes attributes = {{"fn", std::string(fn)}};
      if (std::string(fn) == "leaky_relu" || std::string(fn) == "elu") attributes["alpha"] = 0.3;
      if (std::string(fn) == "pow") attributes["alpha"] = 3.0;
      CAPTURE(fn, name_of(dtype));
      CHECK(run_one("unary", dtype, {2, 3, 5}, dtype, {2, 3, 5}, attributes) <=
            (dtype == DType::kFloat32 ? 2e-3 : 1));
    }
    CHECK(run_one("clamp", dtype, {2, 3, 5}, dtype, {2, 3, 5}, {{"min", 0.0}}, true) <=
          (dtype == DType::kFloat32 ? 1e-6 : 0));
    CHECK(run_one("clamp", dtype, {2, 3, 5}, dtype, {2, 3, 5}, {{"min", -1.0}, {"max", 0.5}}) <=
          (dtype == DType::kFloat32 ? 1e-6 : 0));
  }
}

TEST_CASE("oneDNN: pooling takes zero points, padding and ceil mode", "[backends][onednn]") {
  for (DType dtype : kAll) {
    CAPTURE(name_of(dtype));
    const double limit = limit_of(dtype);
    CHECK(run_one("max_pool", dtype, {2, 5, 9, 9}, dtype, {2, 5, 5, 5},
                  {{"kernel_size", ints({3, 3})},
                   {"stride", ints({2, 2})},
                   {"padding", ints({1, 1})},
                   {"dilation", ints({1, 1})}},
                  true) == 0);
    CHECK(run_one("max_pool", dtype, {1, 64, 8, 8}, dtype, {1, 64, 4, 4},
                  {{"kernel_size", ints({3, 3})},
                   {"stride", ints({2, 2})},
                   {"padding", ints({0, 0})},
                   {"dilation", ints({1, 1})},
                   {"ceil_mode", true}},
                  true) == 0);
    CHECK(run_one("max_pool", dtype, {1, 3, 10}, dtype, {1, 3, 6},
                  {{"kernel_size", ints({3})},
                   {"stride", ints({1})},
                   {"padding", ints({0})},
                   {"dilation", ints({2})}},
                  true) == 0);
    for (bool counts : {false, true})
      CHECK(run_one("avg_pool", dtype, {2, 5, 9, 9}, dtype, {2, 5, 5, 5},
                    {{"kernel_size", ints({3, 3})},
                     {"stride", ints({2, 2})},
                     {"padding", ints({1, 1})},
                     {"count_include_pad", counts},
                     {"ceil_mode", false}}) <= limit);
    CHECK(run_one("avg_pool", dtype, {1, 3, 8, 8}, dtype, {1, 3, 4, 4},
                  {{"kernel_size", ints({3, 3})},
                   {"stride", ints({2, 2})},
                   {"padding", ints({0, 0})},
                   {"ceil_mode", true},
                   {"divisor_override", int64_t{7}}}) <= limit);
    CHECK(run_one("adaptive_avg_pool", dtype, {2, 70, 7, 7}, dtype, {2, 70, 1, 1},
                  {{"output_size", ints({1, 1})}}) <= limit);
    CHECK(run_one("adaptive_avg_pool", dtype, {1, 6, 7, 10}, dtype, {1, 6, 3, 4},
                  {{"output_size", ints({3, 4})}}) <= limit);
    CHECK(run_one("mean", dtype, {2, 6, 7, 10}, dtype, {2, 6},
                  {{"dims", ints({2, 3})}, {"keepdim", false}}) <= limit);
    CHECK(run_one("mean", dtype, {2, 6, 7, 10}, dtype, {2, 6, 1, 1},
                  {{"dims", ints({-1, -2})}, {"keepdim", true}}) <= limit);
    CHECK(run_one("mean", dtype, {2, 6, 7}, dtype, {2, 7},
                  {{"dims", ints({1})}, {"keepdim", false}}) <= limit);
  }
}

TEST_CASE("oneDNN: changes between floats and integers equal the reference within a step",
          "[backends][onednn]") {
  for (DType dtype : kIntegers) {
    CHECK(run_one("quantize", DType::kFloat32, {2, 3, 9, 7}, dtype, {2, 3, 9, 7}, {}) <= 1);
    CHECK(run_one("dequantize", dtype, {2, 3, 9, 7}, DType::kFloat32, {2, 3, 9, 7}, {}) <= 1e-6);
    for (DType other : kIntegers)
      CHECK(run_one("requantize", dtype, {2, 3, 9, 7}, other, {2, 3, 9, 7}, {}) <= 1);
  }
}

TEST_CASE("oneDNN: softmax and normalizations equal the reference", "[backends][onednn]") {
  CHECK(run_one("softmax", DType::kFloat32, {2, 3, 9}, DType::kFloat32, {2, 3, 9},
                {{"dim", int64_t{-1}}}) <= 1e-5);
  CHECK(run_one("softmax", DType::kFloat32, {2, 3, 9}, DType::kFloat32, {2, 3, 9},
                {{"dim", int64_t{1}}}) <= 1e-5);
  CHECK(run_one("softmax", DType::kInt8, {2, 3, 9}, DType::kUInt8, {2, 3, 9},
                {{"dim", int64_t{-1}}}) <= 1);
  for (DType dtype : kAll) {
    ProgramBuilder b;
    const int x = b.input("x", dtype, {2, 6, 4, 4}, quant_params(dtype, 0.03f, 5));
    const int mean = b.constant("mean", random_floats({6}, -1, 1, 2)),
              variance = b.constant("variance", random_floats({6}, 0.5, 2, 3));
    const int weight = b.constant("weight", random_floats({6}, -1, 1, 4)),
              bias = b.constant("bias", random_floats({6}, -1, 1, 5));
    const int y = b.op("batch_norm", {x, mean, variance, weight, bias}, "y", dtype, {2, 6, 4, 4},
                       quant_params(dtype, 0.04f, 2), {{"eps", 1e-5}});
    b.output(y);
    CHECK(check_against_reference(b.finish(), "onednn", {random_tensor(dtype, {2, 6, 4, 4}, 6)}) <=
          limit_of(dtype));
    ProgramBuilder c;
    const int u = c.input("u", dtype, {2, 3, 4, 5}, quant_params(dtype, 0.03f, 5));
    const int gamma = c.constant("gamma", random_floats({4, 5}, -1, 1, 4)),
              beta = c.constant("beta", random_floats({4, 5}, -1, 1, 5));
    c.output(c.op("layer_norm", {u, gamma, beta}, "v", dtype, {2, 3, 4, 5},
                  quant_params(dtype, 0.04f, 2), {{"normalized_dims", int64_t{2}}, {"eps", 1e-5}}));
    CHECK(check_against_reference(c.finish(), "onednn", {random_tensor(dtype, {2, 3, 4, 5}, 6)}) <=
          limit_of(dtype));
  }
}

TEST_CASE("oneDNN: a batch norm after a permutation equals the reference", "[backends][onednn]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 6, 4, 5});
  const int turned = b.op("permute", {x}, "turned", DType::kFloat32, {2, 6, 5, 4}, {},
                          {{"dims", ints({0, 1, 3, 2})}});
  const int mean = b.constant("mean", random_floats({6}, -1, 1, 2)),
            variance = b.constant("variance", random_floats({6}, 0.5, 2, 3));
  b.output(b.op("batch_norm", {turned, mean, variance, -1, -1}, "y", DType::kFloat32, {2, 6, 5, 4},
                {}, {{"eps", 1e-5}}));
  CHECK(check_against_reference(b.finish(), "onednn",
                                {random_tensor(DType::kFloat32, {2, 6, 4, 5}, 6)}) <= 1e-5);
}

TEST_CASE("oneDNN: data movement is exact", "[backends][onednn]") {
  for (DType dtype : kAll) {
    CAPTURE(name_of(dtype));
    CHECK(run_one("reshape", dtype, {2, 6, 4}, dtype, {3, 16}, {}, true) == 0);
    CHECK(run_one("reshape", dtype, {2, 6, 1, 1}, dtype, {2, 6}, {}, true) == 0);
    CHECK(run_one("permute", dtype, {2, 6, 4, 5}, dtype, {2, 4, 5, 6},
                  {{"dims", ints({0, 2, 3, 1})}}, true) == 0);
    CHECK(run_one("slice", dtype, {2, 9, 4}, dtype, {2, 3, 4},
                  {{"dim", int64_t{1}}, {"start", int64_t{2}}, {"step", int64_t{2}}}, true) == 0);
    CHECK(run_one("expand", dtype, {1, 6, 1}, dtype, {4, 2, 6, 5}, {}, true) == 0);
    CHECK(run_one("copy", dtype, {2, 6}, dtype, {2, 6}, {}, true) == 0);
    CHECK(run_one("pad", dtype, {2, 3, 4, 5}, dtype, {2, 3, 7, 8},
                  {{"pads", ints({0, 0, 0, 0, 1, 2, 3, 0})}, {"value", 0.0}}, true) == 0);
    ProgramBuilder b;
    const int x = b.input("x", dtype, {2, 3, 5}, quant_params(dtype, 0.03f, 5));
    const int y = b.input("y", dtype, {2, 4, 5}, quant_params(dtype, 0.02f, 7));
    b.output(b.op("cat", {x, y, x}, "z", dtype, {2, 10, 5}, quant_params(dtype, 0.03f, 5),
                  {{"dim", int64_t{1}}}));
    CHECK(check_against_reference(
              b.finish(), "onednn",
              {random_tensor(dtype, {2, 3, 5}, 6), random_tensor(dtype, {2, 4, 5}, 7)}) <=
          (dtype == DType::kFloat32 ? 0 : 1));
  }
}

TEST_CASE("oneDNN: arithmetic and functions of tensors without dimensions",
          "[backends][onednn][tanh]") {
  for (const char* kind : {"add", "sub", "mul", "div", "maximum"}) {
    CAPTURE(kind);
    ProgramBuilder b;
    const int x = b.input("x", DType::kFloat32, {2, 3}), y = b.input("y", DType::kFloat32, {});
    const Attributes all = {{"fn", std::string("sum")}};
    const int sum = b.op("reduce", {x}, "sum", DType::kFloat32, {}, {}, all);
    const int both = b.op(kind, {sum, y}, "both", DType::kFloat32, {});
    b.output(b.op("unary", {both}, "z", DType::kFloat32, {}, {}, {{"fn", std::string("tanh")}}));
    b.output(both);
    CHECK(check_against_reference(b.finish(), "onednn",
                                  {random_floats({2, 3}), random_floats({}, 0.5f, 1.0f)}) <= 1e-5);
  }
}

}  // namespace octet

// Compares custom kernels, for ops that XNNPACK does not have, with the reference: functions of
// floats, softmax, layer norm and products of two activations.
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <random>

#include "backends/conformance/program_builder.h"
#include "backends/kernels/vector_math.h"
#include "backends/runtime/session.h"
#include "tests/backends/small_programs.h"

namespace octet::test_xnnpack_arithmetic {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kS8 = DType::kInt8;
constexpr DType kU8 = DType::kUInt8;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Attribute text(const char* value) { return std::string(value); }

bool is_byte(DType dtype) { return dtype != kF32; }

// A max pooling that keeps the shape: what it reads and writes is channels-last.
int pooled(ProgramBuilder& b, int x, const std::string& name, const std::vector<int64_t>& shape) {
  return b.op("max_pool", {x}, name, kF32, shape, {},
              {{"kernel_size", ints({3, 3})}, {"stride", ints({1, 1})}, {"padding", ints({1, 1})}});
}

double matmul_difference(DType in, DType out, const std::vector<int64_t>& a,
                         const std::vector<int64_t>& b, const std::vector<int64_t>& y,
                         int32_t b_zero, Attributes attributes = {}) {
  ProgramBuilder builder;
  const int of_a = builder.input("a", in, a, qparams_of(in, 0.02f, -7)),
            of_b = builder.input("b", in, b, qparams_of(in, 0.015f, b_zero));
  const std::vector<int> inputs{of_a, of_b};
  builder.output(
      builder.op("matmul", inputs, "y", out, y, qparams_of(out, 0.31f, 5), std::move(attributes)));
  return check_against_reference(builder.finish(), "xnnpack",
                                 {random_elements(in, a, 1), random_elements(in, b, 2)});
}

// The result of one op on floats.
std::vector<float> outputs_of(const std::string& kind, const std::vector<float>& values,
                              const std::vector<int64_t>& shape, const Attributes& attributes,
                              int threads = 1) {
  ProgramBuilder b;
  const std::vector<int> inputs{b.input("x", kF32, shape)};
  b.output(b.op(kind, inputs, "y", kF32, shape, {}, attributes));
  Session session(with_one_segment(b.finish(), "xnnpack"), {.threads = threads});
  Tensor x = Tensor::zeros(kF32, shape);
  std::copy(values.begin(), values.end(), x.data<float>());
  const Tensor y = session.run(std::vector<Tensor>{x})[0];
  return {y.data<float>(), y.data<float>() + y.numel()};
}

TEST_CASE("exponential, tanh and erf lie within a few units of the exact values",
          "[backends][common][tanh]") {
  for (double x = -110; x < 95; x += 0.0137) {
    const float at = static_cast<float>(x);
    CAPTURE(at);
    const double exact = std::exp(double{at});
    if (exact > std::numeric_limits<float>::max()) {
      CHECK(exponential(at) == kInfinity);
    } else {
      CHECK(std::abs(exponential(at) - exact) <= 3e-7 * exact + 3e-45);
    }
    const double narrow = x / 10;
    const float near = static_cast<float>(narrow);
    CHECK(std::abs(hyperbolic_tangent(near) - std::tanh(double{near})) <=
          3e-7 * std::abs(std::tanh(double{near})));
    CHECK(std::abs(error_function(near) - std::erf(double{near})) < 4e-7);
  }
  const float nan = std::nanf("");
  CHECK(exponential(-kInfinity) == 0);
  CHECK(exponential(0) == 1);
  CHECK(std::isnan(exponential(nan)));
  CHECK(hyperbolic_tangent(kInfinity) == 1);
  CHECK(hyperbolic_tangent(-kInfinity) == -1);
  CHECK(std::isnan(hyperbolic_tangent(nan)));
  CHECK(error_function(kInfinity) == 1);
  CHECK(error_function(-kInfinity) == -1);
  CHECK(std::isnan(error_function(nan)));
}

TEST_CASE("XNNPACK: float functions that it lacks stay in the segment",
          "[backends][xnnpack][tanh]") {
  for (const char* fn : {"exp", "tanh", "erf", "gelu", "gelu_tanh", "square", "reciprocal", "rsqrt",
                         "log", "sin", "softplus", "mish", "selu", "floor", "round", "sign"})
    for (bool is_between : {false, true}) {
      const std::vector<int64_t> shape{2, 5, 9, 7};
      const bool is_positive = std::string(fn).starts_with('r') || std::string(fn) == "log";
      ProgramBuilder b;
      int x = b.input("x", kF32, shape);
      if (is_between) x = pooled(b, x, "p", shape);
      const std::vector<int> inputs{x};
      int y = b.op("unary", inputs, "y", kF32, shape, {}, {{"fn", text(fn)}});
      if (is_between) y = pooled(b, y, "z", shape);
      b.output(y);
      CAPTURE(fn, is_between);
      CHECK(check_against_reference(b.finish(), "xnnpack",
                                    {random_floats(shape, is_positive ? 0.1f : -6, 6)}) < 1e-4);
    }
  ProgramBuilder b;
  const std::vector<int> inputs{b.input("x", kF32, {3})};
  b.output(b.op("unary", inputs, "y", kF32, {3}, {}, {{"fn", text("curl")}}));
  CHECK(refusal(b.finish(), "xnnpack").value_or("") == "y: unknown fn \"curl\"");
}

TEST_CASE("XNNPACK: softmax of floats along every dimension, in either memory order",
          "[backends][xnnpack]") {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2, 5, 9, 7}, {3, 40, 1, 1}, {1, 1, 33, 65}})
    for (int64_t dim : {0, 1, 2, 3, -1})
      for (bool is_between : {false, true}) {
        ProgramBuilder b;
        int x = b.input("x", kF32, shape);
        if (is_between) x = pooled(b, x, "p", shape);
        const std::vector<int> inputs{x};
        int y = b.op("softmax", inputs, "y", kF32, shape, {}, {{"dim", dim}});
        if (is_between) y = pooled(b, y, "z", shape);
        b.output(y);
        CAPTURE(shape, dim, is_between);
        CHECK(check_against_reference(b.finish(), "xnnpack", {random_floats(shape, -9, 9)}) < 1e-6);
      }
  ProgramBuilder b;
  const std::vector<int> inputs{b.input("x", kF32, {4, 1000})};
  b.output(b.op("softmax", inputs, "y", kF32, {4, 1000}, {}, {{"dim", int64_t{1}}}));
  CHECK(check_against_reference(b.finish(), "xnnpack", {random_floats({4, 1000}, -90, 90)}) < 1e-6);
}

TEST_CASE("XNNPACK: a softmax row of nothing but -inf, or with NaN, gives NaNs, its neighbors not",
          "[backends][xnnpack]") {
  for (const int64_t width : {3, 50}) {
    const size_t w = static_cast<size_t>(width);
    std::vector<float> x(4 * w, 0.5f);
    std::fill_n(x.begin() + std::ptrdiff_t(w), w, -kInfinity);
    x[2 * w + 1] = -kInfinity;
    x[3 * w + 2] = std::nanf("");
    for (const int64_t dim : {1, 0}) {
      std::vector<float> given = x;
      if (dim == 0)
        for (size_t i = 0; i < 4; ++i)
          for (size_t k = 0; k < w; ++k) given[k * 4 + i] = x[i * w + k];
      const std::vector<int64_t> shape =
          dim == 1 ? std::vector<int64_t>{4, width} : std::vector<int64_t>{width, 4};
      const std::vector<float> y = outputs_of("softmax", given, shape, {{"dim", dim}});
      const auto at = [&](size_t i, size_t k) { return dim == 1 ? y[i * w + k] : y[k * 4 + i]; };
      CAPTURE(width, dim);
      for (size_t k = 0; k < w; ++k) {
        CHECK(at(0, k) == Approx(1.0 / static_cast<double>(w)));
        CHECK(std::isnan(at(1, k)));
        CHECK(std::isnan(at(3, k)));
      }
      CHECK(at(2, 1) == 0);
      CHECK(at(2, 0) == Approx(1.0 / static_cast<double>(w - 1)));
    }
  }
}

TEST_CASE("XNNPACK: layer norms of floats and bytes, to floats and bytes", "[backends][xnnpack]") {
  struct Case {
    std::vector<int64_t> shape;
    int64_t normalized;
  };
  for (const Case& c : {Case{{3, 17, 40}, 1}, {{5, 384}, 1}, {{2, 3, 8, 9}, 2}, {{7, 1}, 1}})
    for (DType in : {kF32, kS8, kU8})
      for (DType out : {kF32, kS8, kU8})
        for (bool has_parameters : {true, false}) {
          int64_t width = 1;
          for (size_t d = c.shape.size() - static_cast<size_t>(c.normalized); d < c.shape.size();
               ++d)
            width *= c.shape[d];
          ProgramBuilder b;
          std::vector<int> inputs{b.input("x", in, c.shape, qparams_of(in, 0.03f, 11))};
          if (has_parameters) {
            inputs.push_back(b.constant("w", random_floats({width}, -1, 1, 3)));
            inputs.push_back(b.constant("b", random_floats({width}, -1, 1, 4)));
          }
          b.output(b.op("layer_norm", inputs, "y", out, c.shape, qparams_of(out, 0.02f, -9),
                        {{"normalized_dims", c.normalized}, {"eps", 1e-5}}));
          CAPTURE(c.shape, name_of(in), name_of(out), has_parameters);
          CHECK(check_against_reference(b.finish(), "xnnpack", {random_elements(in, c.shape, 5)}) <=
                (is_byte(out) ? 1 : 1e-5));
        }
}

TEST_CASE("XNNPACK: an RMS norm equals the reference", "[backends][xnnpack]") {
  for (const DType in : {kF32, DType::kInt8})
    for (const DType out : {kF32, DType::kInt8}) {
      ProgramBuilder b;
      const std::vector<int> inputs{b.input("x", in, {5, 70}, qparams_of(in, 0.03f, 11)),
                                    b.constant("w", random_floats({70}, -1, 1, 3))};
      b.output(b.op("rms_norm", inputs, "y", out, {5, 70}, qparams_of(out, 0.02f, -9),
                    {{"normalized_dims", int64_t{1}}, {"eps", 1e-6}}));
      CAPTURE(name_of(in), name_of(out));
      CHECK(check_against_reference(b.finish(), "xnnpack", {random_elements(in, {5, 70}, 5)}) <=
            (is_byte(out) ? 1 : 1e-5));
    }
}

TEST_CASE("XNNPACK: a layer norm keeps its digits far from zero", "[backends][xnnpack]") {
  ProgramBuilder b;
  const std::vector<int> inputs{b.input("x", kF32, {4, 300})};
  b.output(b.op("layer_norm", inputs, "y", kF32, {4, 300}, {}, {{"normalized_dims", int64_t{1}}}));
  CHECK(check_against_reference(b.finish(), "xnnpack", {random_floats({4, 300}, 999, 1001)}) <
        1e-3);
}

TEST_CASE("XNNPACK: layer norms whose parameters do not fit are refused", "[backends][xnnpack]") {
  const auto refused = [](int64_t normalized, int64_t weights, bool is_constant) {
    ProgramBuilder b;
    const int x = b.input("x", kF32, {2, 6});
    const int w =
        is_constant ? b.constant("w", random_floats({weights})) : b.input("w", kF32, {weights});
    const std::vector<int> inputs{x, w};
    b.output(b.op("layer_norm", inputs, "y", kF32, {2, 6}, {}, {{"normalized_dims", normalized}}));
    return refusal(b.finish(), "xnnpack").value_or("");
  };
  CHECK(refused(3, 6, true) == "y: 3 normalized dimensions do not fit input [2, 6]");
  CHECK(refused(0, 6, true) == "y: normalized_dims is 0, want at least 1");
  CHECK(refused(1, 5, true) == "y: input 1 has 5 elements, want 6");
  CHECK(refused(1, 6, false) == "y: its parameters are not constant floats");
}

TEST_CASE("XNNPACK: products of two activations, of floats and of bytes", "[backends][xnnpack]") {
  struct Case {
    std::vector<int64_t> a, b, y;
  };
  const std::vector<Case> cases = {
      {{5, 7}, {7, 9}, {5, 9}},
      {{2, 3, 13, 32}, {2, 3, 32, 50}, {2, 3, 13, 50}},
      {{4, 1, 6}, {4, 6, 33}, {4, 1, 33}},
      {{2, 1, 20, 5}, {3, 5, 17}, {2, 3, 20, 17}},
      {{1, 3, 9, 4}, {2, 1, 4, 1}, {2, 3, 9, 1}},
      {{70, 129}, {129, 64}, {70, 64}},
      {{2, 1, 1}, {2, 1, 40}, {2, 1, 40}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.a, c.b);
    CHECK(matmul_difference(kF32, kF32, c.a, c.b, c.y, 0) < 1e-4);
    for (DType in : {kS8, kU8})
      for (int32_t b_zero : {0, 3, -128, 127}) {
        CAPTURE(name_of(in), b_zero);
        CHECK(matmul_difference(in, kF32, c.a, c.b, c.y, b_zero) < 2e-3);
        CHECK(matmul_difference(in, in, c.a, c.b, c.y, b_zero) <= 1);
      }
  }
}

TEST_CASE("XNNPACK: random products of two activations", "[backends][xnnpack]") {
  std::mt19937 random(7);
  const auto up_to = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(1, most)(random);
  };
  for (int i = 0; i < 40; ++i) {
    const int64_t batch = up_to(3), rows = up_to(70), depth = up_to(90), columns = up_to(90);
    CAPTURE(batch, rows, depth, columns);
    const std::vector<int64_t> a{batch, rows, depth}, b{batch, depth, columns},
        y{batch, rows, columns};
    CHECK(matmul_difference(kF32, kF32, a, b, y, 0) < 1e-4);
    CHECK(matmul_difference(kS8, i % 2 ? kF32 : kS8, a, b, y, i % 3 ? 0 : 9) <=
          (i % 2 ? 2e-3 : 1.0));
  }
}

TEST_CASE("XNNPACK: products of two activations clamp, and take constants", "[backends][xnnpack]") {
  const Attributes clamp{{"post_min", 0.0}, {"post_max", 1.5}};
  for (DType dtype : {kF32, kS8})
    CHECK(matmul_difference(dtype, dtype, {2, 8, 12}, {2, 12, 20}, {2, 8, 20}, 4, clamp) <=
          (is_byte(dtype) ? 1 : 1e-5));
  for (bool is_first : {true, false})
    for (DType dtype : {kF32, kU8}) {
      ProgramBuilder b;
      const int x = b.input("x", dtype, {3, 6, 6}, qparams_of(dtype, 0.02f, 4));
      const int c = b.constant("c", random_elements(dtype, {6, 6}, 8), qparams_of(dtype, 0.02f, 4));
      const std::vector<int> inputs = is_first ? std::vector<int>{c, x} : std::vector<int>{x, c};
      b.output(b.op("matmul", inputs, "y", kF32, {3, 6, 6}));
      CAPTURE(is_first, name_of(dtype));
      CHECK(check_against_reference(b.finish(), "xnnpack", {random_elements(dtype, {3, 6, 6}, 9)}) <
            1e-4);
    }
}

TEST_CASE("XNNPACK: products that do not fit are refused with the reason", "[backends][xnnpack]") {
  const auto refused = [](DType a, DType b, DType y, std::vector<int64_t> of_b,
                          std::vector<int64_t> of_y, Attributes attributes = {}) {
    ProgramBuilder builder;
    const std::vector<int> inputs{builder.input("a", a, {4, 6}, qparams_of(a, 0.1f, 0)),
                                  builder.input("b", b, std::move(of_b), qparams_of(b, 0.1f, 0))};
    builder.output(builder.op("matmul", inputs, "y", y, std::move(of_y), qparams_of(y, 0.1f, 0),
                              std::move(attributes)));
    return refusal(builder.finish(), "xnnpack").value_or("");
  };
  CHECK(refused(kF32, kS8, kF32, {6, 5}, {4, 5}) ==
        "y: its inputs are not both integer or both float");
  CHECK(refused(kF32, kF32, kS8, {6, 5}, {4, 5}) ==
        "y: its inputs are float and its output is not");
  CHECK(refused(kF32, kF32, kF32, {5, 6}, {4, 5}) ==
        "y: shapes [4, 6] x [5, 6] -> [4, 5] do not fit");
  CHECK(refused(kF32, kF32, kF32, {6}, {4}) == "y: shapes [4, 6] x [6] -> [4] do not fit");
  CHECK(refused(kF32, kF32, kF32, {6, 5}, {4, 5}, {{"post_min", 2.0}, {"post_max", 1.0}}) ==
        "y: its results are clamped to 2 and 1");
}

TEST_CASE("XNNPACK: quotients of floats", "[backends][xnnpack]") {
  ProgramBuilder b;
  const std::vector<int> inputs{b.input("x", kF32, {3, 5, 6}), b.input("y", kF32, {5, 1})};
  b.output(b.op("div", inputs, "z", kF32, {3, 5, 6}, {}, {{"post_max", 2.5}}));
  CHECK(check_against_reference(b.finish(), "xnnpack",
                                {random_floats({3, 5, 6}), random_floats({5, 1}, 0.1f, 2, 2)}) <
        1e-6);
}

TEST_CASE("XNNPACK: several threads give what one gives", "[backends][xnnpack]") {
  std::vector<float> x(size_t{64} * 700);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 0.37f) * 5;
  for (const char* kind : {"softmax", "layer_norm", "unary"}) {
    const Attributes attributes =
        std::string(kind) == "unary" ? Attributes{{"fn", text("gelu")}} : Attributes{};
    CAPTURE(kind);
    CHECK(outputs_of(kind, x, {64, 700}, attributes, 3) ==
          outputs_of(kind, x, {64, 700}, attributes));
  }
}

}  // namespace octet::test_xnnpack_arithmetic

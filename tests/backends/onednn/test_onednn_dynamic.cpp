// Activations quantized at run time on oneDNN: their integers, the linear ops that read them, and
// other consumers, which read floats.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

// int8 weights with one scale per output channel, as dequantize leaves them.
int stored_weights(ProgramBuilder& b, const Shape& shape, int64_t low = -127, int64_t high = 127) {
  const size_t channels = static_cast<size_t>(shape[0]);
  return b.constant("w", StoredConstant{random_integers(DType::kInt8, shape, 2, low, high),
                                        Tensor::from<float>(DType::kFloat32, {shape[0], 1},
                                                            random_scales(channels)),
                                        Tensor()});
}

// linear after fake_quantize_dynamic, against the reference.
double run_linear(const Shape& x_shape, int64_t out, const Attributes& attributes, bool has_bias,
                  Attributes post = {}) {
  ProgramBuilder b;
  Shape y_shape = x_shape;
  y_shape.back() = out;
  const int x = b.input("x", DType::kFloat32, x_shape);
  const int w = stored_weights(b, {out, x_shape.back()});
  const int bias = has_bias ? b.constant("b", random_floats({out}, -1, 1, 5)) : -1;
  const int q = b.op("fake_quantize_dynamic", {x}, "q", DType::kFloat32, x_shape, {}, attributes);
  b.output(b.op("linear", {q, w, bias}, "y", DType::kFloat32, y_shape, {}, std::move(post)));
  return check_against_reference(b.finish(), "onednn", {random_floats(x_shape, -1, 3)});
}

constexpr double kRounding = 2e-5;  // of sums of about 10

}  // namespace

TEST_CASE("oneDNN: linear on activations quantized per token or per tensor equals the reference",
          "[backends][onednn][dynamic]") {
  for (const char* name : {"asymmetric", "symmetric", "symmetric_unclipped", "least_error"}) {
    CAPTURE(name);
    CHECK(run_linear({2, 5, 40}, 24, mapping(name, -128, 127, {2, 5, 1}), true) <= kRounding);
    CHECK(run_linear({2, 5, 40}, 24, mapping(name, -128, 127, {1, 1, 1}), true) <= kRounding);
    CHECK(run_linear({2, 5, 40}, 24, mapping(name, -128, 127, {2, 1, 1}), false) <= kRounding);
    CHECK(run_linear({7, 33}, 3, mapping(name, 0, 255, {7, 1}), false) <= kRounding);
    CHECK(run_linear({7, 33}, 3, mapping(name, -7, 8, {7, 1}), true) <= kRounding);
  }
  CHECK(run_linear({1, 128, 384}, 384, mapping("asymmetric", -128, 127, {1, 128, 1}), true) <=
        10 * kRounding);
  CHECK(run_linear({17}, 5, mapping("asymmetric", -128, 127, {1}), true) <= kRounding);
  CHECK(run_linear({1, 1}, 1, mapping("asymmetric", -128, 127, {1, 1}), true) <= kRounding);
}

TEST_CASE("oneDNN: a clamp after a linear with scales at run time is applied to the reals",
          "[backends][onednn][dynamic]") {
  CHECK(run_linear({4, 40}, 24, mapping("asymmetric", -128, 127, {4, 1}), true,
                   {{"post_min", 0.0}}) <= kRounding);
  CHECK(run_linear({4, 40}, 24, mapping("asymmetric", -128, 127, {4, 1}), true,
                   {{"post_min", -1.0}, {"post_max", 2.5}}) <= kRounding);
}

TEST_CASE("oneDNN: rows of zeros and of one sign keep their values",
          "[backends][onednn][dynamic]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {3, 32});
  const int q = b.op("fake_quantize_dynamic", {x}, "q", DType::kFloat32, {3, 32}, {},
                     mapping("asymmetric", -128, 127, {3, 1}));
  b.output(b.op("linear", {q, stored_weights(b, {8, 32}), -1}, "y", DType::kFloat32, {3, 8}));
  b.output(q);
  Tensor rows = random_floats({3, 32}, 1, 3);
  for (int i = 0; i < 32; ++i) {
    rows.data<float>()[i] = 0;
    rows.data<float>()[32 + i] *= -1;
  }
  CHECK(check_against_reference(b.finish(), "onednn", {rows}) <= kRounding);
}

TEST_CASE("oneDNN: what reads no integers reads floats quantized at run time",
          "[backends][onednn][dynamic]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {2, 6, 16});
  const int q = b.op("fake_quantize_dynamic", {x}, "q", DType::kFloat32, {2, 6, 16}, {},
                     mapping("asymmetric", -128, 127, {1, 1, 1}));
  const int float_weight = b.constant("f", random_floats({4, 16}));
  const int grouped =
      b.constant("g", StoredConstant{random_integers(DType::kInt8, {4, 16}, 3, -8, 7),
                                     Tensor::from<float>(DType::kFloat32, {4, 2}, random_scales(8)),
                                     Tensor()});
  b.output(b.op("linear", {q, stored_weights(b, {4, 16}), -1}, "a", DType::kFloat32, {2, 6, 4}));
  b.output(b.op("linear", {q, float_weight, -1}, "b", DType::kFloat32, {2, 6, 4}));
  b.output(b.op("linear", {q, grouped, -1}, "c", DType::kFloat32, {2, 6, 4}));
  b.output(b.op("add", {q, x}, "d", DType::kFloat32, {2, 6, 16}));
  CHECK(check_against_reference(b.finish(), "onednn", {random_floats({2, 6, 16}, -2, 1)}) <=
        kRounding);
}

TEST_CASE("oneDNN: blocks that cut rows and ranges above 8 bits are refused",
          "[backends][onednn][dynamic]") {
  const auto reason = [](Attributes attributes) {
    ProgramBuilder b;
    const int x = b.input("x", DType::kFloat32, {2, 8});
    b.output(b.op("fake_quantize_dynamic", {x}, "q", DType::kFloat32, {2, 8}, {},
                  std::move(attributes)));
    return refusal(b.finish(), "onednn").value_or("");
  };
  CHECK(reason(mapping("asymmetric", -128, 127, {2, 2})) ==
        "q: the scales are for [2, 2] blocks of [2, 8], want one per tensor or per row");
  CHECK(reason(mapping("asymmetric", -32768, 32767, {2, 1})) ==
        "q: the range has more than 256 steps");
}

}  // namespace octet

// Linears on bytes by a custom kernel, against the reference.
#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"

namespace octet::test_xnnpack_byte_linear {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kS8 = DType::kInt8;
constexpr DType kU8 = DType::kUInt8;

bool is_byte(DType dtype) { return dtype != kF32; }

TEST_CASE("XNNPACK: linears on bytes, to floats and bytes, with every kind of bias",
          "[backends][xnnpack]") {
  enum class Bias { kNone, kFloat, kInteger };
  struct Case {
    int64_t rows, in, out;
  };
  for (const Case& c : {Case{1, 5, 3}, {13, 64, 48}, {130, 129, 270}, {7, 3, 16}})
    for (DType in : {kS8, kU8})
      for (DType out : {kF32, kS8, kU8})
        for (Bias kind : {Bias::kNone, Bias::kFloat, Bias::kInteger})
          for (bool is_per_channel : {true, false}) {
            ProgramBuilder b;
            const std::vector<float> scales =
                is_per_channel ? random_scales(static_cast<size_t>(c.out)) : std::vector{0.004f};
            std::vector<int> inputs{
                b.input("x", in, {2, c.rows, c.in}, qparams_of(in, 0.02f, -5)),
                b.constant("w", random_integers(kS8, {c.out, c.in}, 6),
                           is_per_channel ? per_channel(scales, 0) : quantized(scales[0], 0))};
            if (kind == Bias::kFloat) {
              inputs.push_back(b.constant("b", random_floats({c.out}, -1, 1, 4)));
            } else if (kind == Bias::kInteger) {
              std::vector<float> of_bias;
              for (const float scale : scales) of_bias.push_back(scale * 0.02f);
              inputs.push_back(
                  b.constant("b", random_integers(DType::kInt32, {c.out}, 4, -5000, 5000),
                             is_per_channel ? per_channel(of_bias, 0) : quantized(of_bias[0], 0)));
            } else {
              inputs.push_back(-1);
            }
            b.output(b.op("linear", inputs, "y", out, {2, c.rows, c.out}, qparams_of(out, 0.1f, 9),
                          {{"post_min", -1.0}}));
            CAPTURE(c.rows, c.in, c.out, name_of(in), name_of(out), int(kind), is_per_channel);
            CHECK(check_against_reference(b.finish(), "xnnpack",
                                          {random_elements(in, {2, c.rows, c.in}, 3)}) <=
                  (is_byte(out) ? 1 : 2e-4));
          }
}

TEST_CASE("XNNPACK: linears with scales that XNNPACK refuses run on custom kernels on every CPU",
          "[backends][xnnpack]") {
  for (const std::vector<float>& scales :
       {std::vector<float>{0.01f, 3000, 0.02f}, {1, 1e-38f, 1e-12f}}) {
    ProgramBuilder b;
    const std::vector<int> inputs{
        b.input("x", kS8, {4, 6}, quantized(0.1f, 3)),
        b.constant("w", random_integers(kS8, {3, 6}), per_channel(scales, 0)), -1};
    b.output(b.op("linear", inputs, "y", kS8, {4, 3}, quantized(0.5f, -4)));
    CAPTURE(scales);
    CHECK(check_against_reference(b.finish(), "xnnpack", {random_integers(kS8, {4, 6}, 3)}) <= 1);
  }
}

TEST_CASE("XNNPACK: linears from bytes to floats that do not fit are refused",
          "[backends][xnnpack]") {
  const auto refused = [](TensorQParams weight, Attributes attributes = {}) {
    ProgramBuilder b;
    const std::vector<int> inputs{b.input("x", kS8, {2, 6}, quantized(0.1f, 0)),
                                  b.constant("w", random_integers(kS8, {4, 6}), std::move(weight)),
                                  -1};
    b.output(b.op("linear", inputs, "y", kF32, {2, 4}, {}, std::move(attributes)));
    return refusal(b.finish(), "xnnpack").value_or("taken");
  };
  const std::string mixed = "y: input and output are not both integer or both float";
  CHECK(refused(quantized(0.1f, 0)) == "taken");
  CHECK(refused(quantized(0.1f, 1)) == mixed);
  CHECK(refused(per_channel({1, 2, 3, 4, 5, 6}, 1)) == mixed);
  CHECK(refused(quantized(0.1f, 0), {{"post_min", 1.0}, {"post_max", 1.0}}) == mixed);
}

}  // namespace octet::test_xnnpack_byte_linear

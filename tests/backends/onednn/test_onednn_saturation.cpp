// Products on CPUs whose int8 sums have 16 bits. ctest runs this twice more with ONEDNN_MAX_CPU_ISA
// set for such CPUs.
#include <algorithm>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/onednn/bytes/tiles.h"
#include "backends/onednn/saturation.h"
#include "backends/runtime/session.h"

using namespace octet;

namespace {

// quantize to [0, quant_max], then a linear layer with weights in [-magnitude, magnitude]; every
// input and weight may be at the end of its range.
Program linear(int64_t quant_max, int64_t magnitude) {
  ProgramBuilder b;
  const std::vector<int> x = {b.input("x", DType::kFloat32, {3, 64})};
  const int steps = b.op("quantize", x, "steps", DType::kUInt8, {3, 64}, quantized(0.01f, 0),
                         {{"quant_max", quant_max}});
  const int w =
      b.constant("w", random_integers(DType::kInt8, {32, 64}, 1, magnitude - 1, magnitude),
                 quantized(0.01f, 0));
  const std::vector<int> operands = {steps, w, -1};
  b.output(b.op("linear", operands, "y", DType::kUInt8, {3, 32}, quantized(1.0f, 0)));
  return b.finish();
}

// Two linear layers, each in a separate segment, then neg on the reference.
Program three_segments() {
  ProgramBuilder b;
  const int x = b.input("x", DType::kUInt8, {3, 64}, quantized(0.01f, 0));
  const int w =
      b.constant("w", random_integers(DType::kInt8, {64, 64}, 1, -127, 127), quantized(0.01f, 0));
  const std::vector<int> of_x = {x, w, -1};
  const int y = b.op("linear", of_x, "y", DType::kUInt8, {3, 64}, quantized(0.1f, 100));
  const std::vector<int> of_y = {y, w, -1};
  const int z = b.op("linear", of_y, "z", DType::kFloat32, {3, 64});
  const std::vector<int> of_z = {z};
  const int negative =
      b.op("unary", of_z, "negative", DType::kFloat32, {3, 64}, {}, {{"fn", std::string("neg")}});
  b.output(negative);
  Program program = b.finish();
  program.backend = "onednn";
  program.segments = {
      {"onednn", {0}, {x}, {y}}, {"onednn", {1}, {y}, {z}}, {"reference", {2}, {z}, {negative}}};
  program.reasons["negative"] = "it is made up";
  return program;
}

bool is_in_floats(const std::vector<KernelReport>& kernels) {
  return std::any_of(kernels.begin(), kernels.end(),
                     [](const KernelReport& kernel) { return kernel.what == "dequantize"; });
}

// oneDNN's int8 kernels sum in 16 bits here, and no custom tiles replace them.
bool computes_in_floats() {
  return onednn::sums_in_16_bits() && onednn::find_tile_kernels() == nullptr;
}

}  // namespace

TEST_CASE(
    "oneDNN: a product that may pass 16 bits stays in integers with AVX2, and is computed in "
    "floats below, which the session says",
    "[backends][onednn][saturation]") {
  const Program program = linear(255, 127);
  CHECK(check_against_reference(program, "onednn", {random_floats({3, 64}, 2.4f, 2.6f)}) <= 1);
  const Session session(with_one_segment(program, "onednn"));
  CHECK(is_in_floats(session.kernels()) == computes_in_floats());
  REQUIRE(session.warnings().size() == (computes_in_floats() ? 1 : 0));
  if (session.warnings().empty()) return;
  CHECK(session.warnings()[0] ==
        "y: computed in floats, as this CPU has no AVX2 and sums of int8 products may not fit into "
        "16 bits; quantize with --quantizer x86 "
        "--reduce-range");
}

TEST_CASE(
    "oneDNN: a cause is warned of once, whatever segments it concerns, and each call has its "
    "reason",
    "[backends][onednn][saturation]") {
  const Session session(three_segments());
  const std::string cause =
      "computed in floats, as this CPU has no AVX2 and sums of int8 products may not fit into 16 "
      "bits; quantize with --quantizer x86 "
      "--reduce-range";
  const std::vector<std::string> warnings = session.warnings();
  if (computes_in_floats())
    CHECK(warnings == std::vector<std::string>{"y and 1 more: " + cause});
  else
    CHECK(warnings.empty());
  for (const KernelReport& kernel : session.kernels()) {
    CAPTURE(kernel.what, kernel.ops);
    const bool is_fallback = kernel.ops.front() == "negative";
    CHECK(kernel.note == (is_fallback            ? "not on onednn: it is made up"
                          : computes_in_floats() ? cause
                                                 : ""));
  }
}

TEST_CASE("oneDNN: narrow activations, and narrow weights, stay in integers on every CPU",
          "[backends][onednn][saturation]") {
  for (const auto& [quant_max, magnitude] : {std::pair<int64_t, int64_t>{127, 127}, {255, 64}}) {
    CAPTURE(quant_max, magnitude);
    const Program program = linear(quant_max, magnitude);
    CHECK(check_against_reference(program, "onednn", {random_floats({3, 64}, 2.4f, 2.6f)}) <= 1);
    const Session session(with_one_segment(program, "onednn"));
    CHECK_FALSE(is_in_floats(session.kernels()));
    CHECK(session.warnings().empty());
  }
}

TEST_CASE("oneDNN: the highest byte is followed through moves, clamps and a change of sign",
          "[backends][onednn][saturation]") {
  ProgramBuilder b;
  const TensorQParams q = quantized(0.5f, 10), other = quantized(0.25f, 10);
  const std::vector<int> x = {b.input("x", DType::kFloat32, {2, 8})};
  const int narrow =
      b.op("quantize", x, "narrow", DType::kUInt8, {2, 8}, q, {{"quant_max", int64_t{127}}});
  const int wide = b.op("quantize", x, "wide", DType::kUInt8, {2, 8}, q);
  const int is_signed =
      b.op("quantize", x, "is_signed", DType::kInt8, {2, 8}, q, {{"quant_max", int64_t{63}}});
  const std::vector<int> narrow_only = {narrow}, both = {narrow, wide}, twice = {narrow, narrow};
  const int moved = b.op("reshape", narrow_only, "moved", DType::kUInt8, {16}, q);
  const int changed = b.op("reshape", narrow_only, "changed", DType::kUInt8, {16}, other);
  const int same = b.op("cat", twice, "same", DType::kUInt8, {4, 8}, q, {{"dim", int64_t{0}}});
  const int mixed = b.op("cat", both, "mixed", DType::kUInt8, {4, 8}, q, {{"dim", int64_t{0}}});
  const int clamped = b.op("add", both, "clamped", DType::kUInt8, {2, 8}, q, {{"post_max", 6.0}});
  for (int index : {is_signed, moved, changed, same, mixed, clamped}) b.output(index);
  const std::vector<uint8_t> highest = onednn::highest_bytes(b.finish());
  const auto of = [&](int index) { return static_cast<int>(highest[static_cast<size_t>(index)]); };
  CHECK(of(x[0]) == 255);
  CHECK(of(narrow) == 127);
  CHECK(of(wide) == 255);
  CHECK(of(is_signed) == 191);
  CHECK(of(moved) == 127);
  CHECK(of(changed) == 255);  // another scale: the bytes differ
  CHECK(of(same) == 127);
  CHECK(of(mixed) == 255);
  CHECK(of(clamped) == 22);  // 6 / 0.5 + 10
}

TEST_CASE("oneDNN: two products fit into 16 bits up to 32767", "[backends][onednn][saturation]") {
  CHECK(onednn::fits_16_bits(255, 64));
  CHECK_FALSE(onednn::fits_16_bits(255, 65));
  CHECK(onednn::fits_16_bits(127, 128));
  CHECK_FALSE(onednn::fits_16_bits(128, 128));
  CHECK(onednn::greatest_magnitude(
            Tensor::from<int8_t>(DType::kInt8, {3}, std::vector<int8_t>{5, -128, 127})) == 128);
}

TEST_CASE(
    "oneDNN: a quantization range narrower than the type is kept, in whichever form the next op "
    "wants the bytes",
    "[backends][onednn]") {
  for (DType dtype : {DType::kUInt8, DType::kInt8}) {
    const int64_t high = dtype == DType::kUInt8 ? 127 : 63, low = high - 100;
    ProgramBuilder b;
    const std::vector<int> x = {b.input("x", DType::kFloat32, {2, 3, 4, 4})};
    const int steps = b.op("quantize", x, "steps", dtype, {2, 3, 4, 4},
                           quantized(0.01f, static_cast<int>(high) - 60),
                           {{"quant_min", low}, {"quant_max", high}});
    const int w = b.constant("w", random_integers(DType::kInt8, {8, 3, 1, 1}), quantized(0.01f, 0));
    const std::vector<int> operands = {steps, w, -1};
    b.output(steps);
    b.output(b.op("conv", operands, "y", dtype, {2, 8, 4, 4}, quantized(0.1f, 5)));
    CHECK(check_against_reference(b.finish(), "onednn", {random_floats({2, 3, 4, 4}, -3, 3)}) <= 1);
  }
}

TEST_CASE("oneDNN: padding with a byte above what the input holds is summed exactly",
          "[backends][onednn][saturation]") {
  ProgramBuilder b;
  const std::vector<int> x = {b.input("x", DType::kFloat32, {1, 32, 7, 7})};
  const int steps = b.op("quantize", x, "steps", DType::kUInt8, {1, 32, 7, 7},
                         quantized(0.01f, 200), {{"quant_max", int64_t{50}}});
  const int w = b.constant("w", random_integers(DType::kInt8, {16, 32, 3, 3}, 1, 100, 127),
                           quantized(0.01f, 0));
  b.output(b.op("conv", {steps, w, -1}, "y", DType::kUInt8, {1, 16, 7, 7}, quantized(4.0f, 255),
                {{"padding", ints({1, 1})}}));
  CHECK(check_against_reference(b.finish(), "onednn", {random_floats({1, 32, 7, 7}, -2, -1.5f)}) <=
        1);
}

// Which kernels a compiled program calls on oneDNN: fused ones, and integers that stay integers.
// Reads the list of kernels and measures no time.
#include <algorithm>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/onednn/bytes/tiles.h"
#include "backends/onednn/saturation.h"
#include "backends/runtime/session.h"
#include "tests/backends/small_programs.h"

using namespace octet;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

// r = first(x), then quantize(relu(conv(r) + dequantize(r))), the end of a residual block; the zero
// point of y makes relu more than a limit of the bytes.
Program residual_block(int64_t channels, int64_t kernel, DType dtype) {
  ProgramBuilder b;
  const std::vector<int64_t> shape = {2, channels, 7, 9};
  const int low = dtype == DType::kUInt8 ? 0 : -128;
  const auto geometry = [](int64_t size) {
    return Attributes{{"stride", ints({1, 1})}, {"padding", ints({size / 2, size / 2})}};
  };
  const auto weight = [&](const std::string& name, int64_t size) {
    return b.constant(name,
                      random_integers(DType::kInt8, {channels, channels, size, size}, 1, -127),
                      per_channel(random_scales(static_cast<size_t>(channels)), 0));
  };
  const std::vector<int> first_inputs = {b.input("x", dtype, shape, quantized(0.02f, low + 3)),
                                         weight("first_w", 3), -1};
  const int r =
      b.op("conv", first_inputs, "first", dtype, shape, quantized(0.1f, low + 90), geometry(3));
  const int bias = b.constant("bias", random_floats({channels}));
  const std::vector<int> conv_inputs = {r, weight("w", kernel), bias}, of_r = {r};
  const int conv = b.op("conv", conv_inputs, "conv", DType::kFloat32, shape, {}, geometry(kernel));
  const int real = b.op("dequantize", of_r, "real", DType::kFloat32, shape);
  const std::vector<int> summands = {conv, real};
  const std::vector<int> of_sum = {
      b.op("add", summands, "sum", DType::kFloat32, shape, {}, {{"post_min", 0.0}})};
  b.output(b.op("quantize", of_sum, "y", dtype, shape, quantized(0.05f, low + 20)));
  return b.finish();
}

}  // namespace

TEST_CASE("oneDNN: residual addition and relu are part of the convolution",
          "[backends][onednn][kernels]") {
  if (onednn::sums_in_16_bits()) return;  // by custom kernels, or in floats
  const std::vector<KernelReport> kernels =
      Session(with_one_segment(residual_block(32, 3, DType::kUInt8), "onednn")).kernels();
  size_t convolutions = 0;
  for (const KernelReport& kernel : kernels) {
    INFO(kernel.what << " " << kernel.kernel);
    if (kernel.what == "convolution" && kernel.ops.front() == "conv") {
      ++convolutions;
      CHECK(kernel.ops == std::vector<std::string>{"conv", "sum", "y"});
      CHECK_THAT(kernel.post_ops, StartsWith("binary_add u8, relu"));
      CHECK(kernel.layout == "u8 nhwc -> u8 nhwc");
    } else {
      // the first one, and the caller's order in and out
      CHECK((kernel.what == "convolution" || kernel.what == "reorder"));
    }
  }
  CHECK(convolutions == 1);
}

TEST_CASE(
    "oneDNN: residual additions of 3x3 and 1x1 convolutions stay within a step of the reference",
    "[backends][onednn][kernels]") {
  // computed in floats
  if (onednn::sums_in_16_bits() && onednn::find_tile_kernels() == nullptr) return;
  for (DType dtype : {DType::kUInt8, DType::kInt8})
    for (int64_t kernel : {1, 3}) {
      CAPTURE(name_of(dtype), kernel);
      const Program program = residual_block(64, kernel, dtype);
      CHECK(check_against_reference(program, "onednn", {random_integers(dtype, {2, 64, 7, 9})}) <=
            1);
      for (const KernelReport& kernel_report :
           Session(with_one_segment(program, "onednn")).kernels()) {
        CHECK(kernel_report.what != "addition");
        CHECK(kernel_report.what != "dequantize");
      }
    }
}

TEST_CASE("oneDNN: integers stay integers through pooling, addition, cat, mean and reshape",
          "[backends][onednn][kernels]") {
  // computed in floats
  if (onednn::sums_in_16_bits() && onednn::find_tile_kernels() == nullptr) return;
  const std::vector<KernelReport> kernels = Session(integer_network()).kernels();
  CHECK(kernels.size() >= 6);
  for (const KernelReport& kernel : kernels) {
    INFO(kernel.what << " " << kernel.kernel << " " << kernel.layout);
    CHECK(kernel.layout.find("f32") == std::string::npos);
    CHECK(kernel.what != "quantize");
    CHECK(kernel.what != "dequantize");
  }
}

TEST_CASE("oneDNN: ops that read integers and compute in floats say so",
          "[backends][onednn][kernels]") {
  ProgramBuilder b;
  const std::vector<int> x = {b.input("x", DType::kUInt8, {4, 32}, quantized(0.1f, 3)), -1, -1};
  const int normed = b.op("layer_norm", x, "normed", DType::kUInt8, {4, 32}, quantized(0.05f, 128),
                          {{"normalized_dims", int64_t{1}}});
  const std::vector<int> of_normed = {normed};
  b.output(b.op("dequantize", of_normed, "y", DType::kFloat32, {4, 32}));
  for (const KernelReport& kernel : Session(with_one_segment(b.finish(), "onednn")).kernels()) {
    CAPTURE(kernel.what, kernel.ops);
    const bool is_norm = !kernel.ops.empty() && kernel.ops.front() == "normed";
    CHECK(kernel.note ==
          (is_norm ? "computed in floats: there is no kernel for these integers" : ""));
  }
}

TEST_CASE("oneDNN: kernels are timed from one call to the next", "[backends][onednn][kernels]") {
  Session session(integer_network());
  const std::vector<Tensor> inputs = {random_integers(DType::kUInt8, {1, 16, 8, 8})};
  session.run(inputs);
  const auto is_timed = [&] {
    const std::vector<KernelReport> kernels = session.kernels();
    return std::all_of(kernels.begin(), kernels.end(),
                       [](const KernelReport& kernel) { return kernel.seconds > 0; });
  };
  CHECK_FALSE(is_timed());
  session.time_kernels(true);
  session.run(inputs);
  CHECK(is_timed());
  session.time_kernels(false);
  CHECK_FALSE(is_timed());
}

TEST_CASE("a backend without timings has one entry for a segment", "[backends][session][kernels]") {
  const std::vector<KernelReport> kernels = Session(two_segments()).kernels();
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].kernel == "reference");
  CHECK(kernels[0].ops.size() == 1);
}

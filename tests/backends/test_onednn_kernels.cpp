// What a compiled program on oneDNN calls, kernel by kernel: fusion, and integers that stay integers. From the list of kernels, not from times.
#include <algorithm>

#include <catch2/catch.hpp>

#include "backends/runtime/session.h"
#include "tests/backends/program_builder.h"
#include "tests/backends/small_programs.h"

using namespace octet;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

const std::map<std::string, Attribute> kDense3x3 = {
    {"stride",  ints({1, 1})},
    {"padding", ints({1, 1})}
};

// r = first(x), then quantize(relu(conv(r) + dequantize(r))), the end of a residual block; the zero point of y makes relu more than the limit of bytes.
Program residual_block() {
  ProgramBuilder b;
  const std::vector<int64_t> shape = {1, 32, 8, 8};
  const int x = b.input("x", DType::kUInt8, shape, quantized(0.02f, 3));
  const int w = b.constant("w", random_integers(DType::kInt8, {32, 32, 3, 3}, 1, -127), per_channel(random_scales(32), 0));
  const std::vector<int> first_inputs = {x, w, -1};
  const int r = b.op("conv", first_inputs, "first", DType::kUInt8, shape, quantized(0.1f, 90), kDense3x3);
  const std::vector<int> conv_inputs = {r, w, -1}, of_r = {r};
  const int conv = b.op("conv", conv_inputs, "conv", DType::kFloat32, shape, {}, kDense3x3);
  const int real = b.op("dequantize", of_r, "real", DType::kFloat32, shape);
  const std::vector<int> summands = {conv, real};
  const std::vector<int> of_sum = {
      b.op("add", summands, "sum", DType::kFloat32, shape, {                },
           {{"post_min", 0.0}}
           )
  };
  b.output(b.op("quantize", of_sum, "y", DType::kUInt8, shape, quantized(0.05f, 20)));
  return with_one_segment(b.finish(), "onednn");
}

}  // namespace

TEST_CASE("oneDNN: residual addition and relu are part of the convolution", "[backends][onednn][kernels]") {
  const std::vector<KernelReport> kernels = Session(residual_block()).kernels();
  size_t convolutions = 0;
  for (const KernelReport& kernel : kernels) {
    INFO(kernel.what << " " << kernel.kernel);
    if (kernel.what == "convolution" && kernel.ops.front() == "conv") {
      ++convolutions;
      CHECK(kernel.ops == std::vector<std::string>{"conv", "sum", "y"});
      CHECK_THAT(kernel.post_ops, StartsWith("binary_add u8, relu"));
      CHECK(kernel.layout == "u8 nhwc -> u8 nhwc");
    } else {
      CHECK((kernel.what == "convolution" || kernel.what == "reorder"));  // the first one, and the caller's order in and out
    }
  }
  CHECK(convolutions == 1);
}

TEST_CASE("oneDNN: integers stay integers through pooling, addition, cat, mean and reshape", "[backends][onednn][kernels]") {
  const std::vector<KernelReport> kernels = Session(integer_network()).kernels();
  CHECK(kernels.size() >= 6);
  for (const KernelReport& kernel : kernels) {
    INFO(kernel.what << " " << kernel.kernel << " " << kernel.layout);
    CHECK(kernel.layout.find("f32") == std::string::npos);
    CHECK(kernel.what != "quantize");
    CHECK(kernel.what != "dequantize");
  }
}

TEST_CASE("oneDNN: kernels are timed from one call to the next", "[backends][onednn][kernels]") {
  Session session(integer_network());
  const std::vector<Tensor> inputs = {random_integers(DType::kUInt8, {1, 16, 8, 8})};
  session.run(inputs);
  const auto is_timed = [&] {
    const std::vector<KernelReport> kernels = session.kernels();
    return std::all_of(kernels.begin(), kernels.end(), [](const KernelReport& kernel) { return kernel.seconds > 0; });
  };
  CHECK_FALSE(is_timed());
  session.time_kernels(true);
  session.run(inputs);
  CHECK(is_timed());
  session.time_kernels(false);
  CHECK_FALSE(is_timed());
}

TEST_CASE("a backend that does not tell has one entry for a segment", "[backends][session][kernels]") {
  const std::vector<KernelReport> kernels = Session(two_segments()).kernels();
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].kernel == "reference");
  CHECK(kernels[0].ops.size() == 1);
}

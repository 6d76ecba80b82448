// Compares the reference kernels with plain formulas, written here in the simplest way.
#include <cmath>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/reference/reference_backend.h"
#include "backends/runtime/session.h"

using namespace octet;

namespace {

std::vector<Tensor> run(const Program& program, const std::vector<Tensor>& inputs) {
  const std::optional<std::string> refused = refusal(program, "reference");
  REQUIRE(refused.value_or("accepted") == "accepted");
  return Session(with_one_segment(program, "reference")).run(inputs);
}

// One op on float inputs.
Tensor run_op(const std::string& kind, const std::vector<Tensor>& inputs,
              std::vector<int64_t> shape, Attributes attributes = {}) {
  ProgramBuilder b;
  std::vector<int> indices;
  for (size_t i = 0; i < inputs.size(); ++i)
    indices.push_back(b.input("x" + std::to_string(i), inputs[i].dtype(), inputs[i].shape()));
  b.output(b.op(kind, indices, "y", DType::kFloat32, std::move(shape), {}, std::move(attributes)));
  return run(b.finish(), inputs)[0];
}

Tensor floats(std::vector<int64_t> shape, std::vector<float> values) {
  return Tensor::from<float>(DType::kFloat32, std::move(shape), values);
}

std::vector<float> values_of(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.numel()};
}

int quantize(double real, double scale, int zero, int low, int high) {
  return static_cast<int>(
      std::min<double>(std::max<double>(std::nearbyint(real / scale) + zero, low), high));
}

}  // namespace

TEST_CASE("an integer convolution is the real one, rounded once", "[backends][reference]") {
  const std::vector<float> w_scales = random_scales(4);
  ProgramBuilder b;
  const int x = b.input("x", DType::kUInt8, {2, 6, 7, 5}, quantized(0.02f, 117));
  const Tensor w_data = random_integers(DType::kInt8, {4, 3, 3, 2}, 2);
  const int w = b.constant("w", w_data, per_channel(w_scales, 0));
  const Tensor bias_data = random_floats({4}, -3, 3);
  const int bias = b.constant("bias", bias_data);
  const int y = b.op("conv", {x, w, bias}, "y", DType::kInt8, {2, 4, 4, 6}, quantized(0.05f, -3),
                     {{"stride", ints({2, 1})},
                      {"padding", ints({1, 1})},
                      {"dilation", ints({1, 1})},
                      {"groups", int64_t{2}},
                      {"post_min", 0.0},
                      {"post_max", 4.0}});
  b.output(y);
  const Tensor x_data = random_integers(DType::kUInt8, {2, 6, 7, 5}, 3);
  const Tensor got = run(b.finish(), {x_data})[0];
  int64_t at = 0;
  int wrong = 0;
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 4; ++o)
      for (int oy = 0; oy < 4; ++oy)
        for (int ox = 0; ox < 6; ++ox, ++at) {
          double sum = bias_data.data<float>()[o];
          for (int c = 0; c < 3; ++c)
            for (int ky = 0; ky < 3; ++ky)
              for (int kx = 0; kx < 2; ++kx) {
                const int iy = oy * 2 - 1 + ky, ix = ox - 1 + kx;
                if (iy < 0 || iy >= 7 || ix < 0 || ix >= 5) continue;
                const int xq = x_data.data<uint8_t>()[((n * 6 + o / 2 * 3 + c) * 7 + iy) * 5 + ix];
                const int wq = w_data.data<int8_t>()[((o * 3 + c) * 3 + ky) * 2 + kx];
                sum +=
                    0.02f * (xq - 117) * static_cast<double>(w_scales[static_cast<size_t>(o)]) * wq;
              }
          sum = std::min(std::max(sum, 0.0), 4.0);
          wrong += got.data<int8_t>()[at] != quantize(sum, 0.05f, -3, -128, 127) ? 1 : 0;
        }
  CHECK(wrong <= 1);  // a tie may fall to either side
}

TEST_CASE("a transposed convolution spreads each input over the output", "[backends][reference]") {
  const Tensor y =
      run_op("conv_transpose", {floats({1, 1, 3}, {1, 2, 3}), floats({1, 1, 2}, {10, 1})},
             {1, 1, 6}, {{"stride", ints({2})}});
  CHECK(values_of(y) == std::vector<float>{10, 1, 20, 2, 30, 3});
}

TEST_CASE("linear takes float inputs with integer weights", "[backends][reference]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {1, 2});
  const std::vector<int8_t> weights = {1, 2, 3, 4};
  const int w = b.constant("w", Tensor::from<int8_t>(DType::kInt8, {2, 2}, weights),
                           per_channel({0.5f, 0.25f}, 0));
  b.output(b.op("linear", {x, w, -1}, "y", DType::kFloat32, {1, 2}));
  CHECK(values_of(run(b.finish(), {floats({1, 2}, {1, 10})})[0]) ==
        std::vector<float>{10.5f, 10.75f});
}

TEST_CASE("matmul broadcasts its batches", "[backends][reference]") {
  const Tensor y =
      run_op("matmul", {floats({2, 1, 2}, {1, 2, 3, 4}), floats({2, 1}, {10, 1})}, {2, 1, 1});
  CHECK(values_of(y) == std::vector<float>{12, 34});
}

TEST_CASE("arithmetic broadcasts and scales its second operand by alpha", "[backends][reference]") {
  const Tensor a = floats({2, 2}, {1, 2, 3, 4});
  const Tensor b = floats({2}, {10, 20});
  CHECK(values_of(run_op("add", {a, b}, {2, 2}, {{"alpha", 2.0}})) ==
        std::vector<float>{21, 42, 23, 44});
  CHECK(values_of(run_op("sub", {a, b}, {2, 2}, {{"post_min", -9.0}})) ==
        std::vector<float>{-9, -9, -7, -9});
  CHECK(values_of(run_op("mul", {a, b}, {2, 2})) == std::vector<float>{10, 40, 30, 80});
  CHECK(values_of(run_op("div", {b, a}, {2, 2})) == std::vector<float>{10, 10, 10.0f / 3, 5});
  CHECK(values_of(run_op("minimum", {a, floats({}, {2.5f})}, {2, 2})) ==
        std::vector<float>{1, 2, 2.5f, 2.5f});
  CHECK(values_of(run_op("clamp", {a}, {2, 2}, {{"min", 2.0}, {"max", 3.0}})) ==
        std::vector<float>{2, 2, 3, 3});
}

TEST_CASE("pools follow padding, ceil mode and the divisor", "[backends][reference]") {
  const Tensor x = floats({1, 1, 1, 5}, {1, -2, 3, 4, 9});
  const Attributes window = {
      {"kernel_size", ints({1, 2})}, {"stride", ints({1, 2})}, {"padding", ints({0, 0})}};
  Attributes ceiling = window;
  ceiling["ceil_mode"] = true;
  CHECK(values_of(run_op("max_pool", {x}, {1, 1, 1, 2}, window)) == std::vector<float>{1, 4});
  CHECK(values_of(run_op("max_pool", {x}, {1, 1, 1, 3}, ceiling)) == std::vector<float>{1, 4, 9});
  CHECK(values_of(run_op("avg_pool", {x}, {1, 1, 1, 3}, ceiling)) ==
        std::vector<float>{-0.5f, 3.5f, 9});
  const Attributes padded = {
      {"kernel_size", ints({1, 2})}, {"stride", ints({1, 3})}, {"padding", ints({0, 1})}};
  CHECK(values_of(run_op("avg_pool", {x}, {1, 1, 1, 2}, padded)) == std::vector<float>{0.5f, 3.5f});
  CHECK(
      values_of(run_op("adaptive_avg_pool", {x}, {1, 1, 1, 2}, {{"output_size", ints({1, 2})}})) ==
      std::vector<float>{2.0f / 3, 16.0f / 3});
  CHECK(values_of(run_op("mean", {floats({2, 2}, {1, 2, 3, 4})}, {2}, {{"dims", ints({-1})}})) ==
        std::vector<float>{1.5f, 3.5f});
}

TEST_CASE("normalizations follow their formulas", "[backends][reference]") {
  const Tensor p = run_op("softmax", {floats({1, 3}, {0, std::log(2.0f), std::log(5.0f)})}, {1, 3},
                          {{"dim", int64_t{1}}});
  CHECK(p.data<float>()[0] == Approx(0.125));
  CHECK(p.data<float>()[2] == Approx(0.625));
  const Tensor n =
      run_op("layer_norm", {floats({1, 2}, {1, 3}), floats({2}, {2, 2}), floats({2}, {0, 1})},
             {1, 2}, {{"normalized_dims", int64_t{1}}, {"eps", 0.0}});
  CHECK(values_of(n) == std::vector<float>{-2, 3});
  const Tensor rms = run_op("rms_norm", {floats({1, 2}, {3, 4}), floats({2}, {2, 1})}, {1, 2},
                            {{"normalized_dims", int64_t{1}}, {"eps", 0.0}});
  CHECK(rms.data<float>()[0] == Approx(6 / std::sqrt(12.5)));
  CHECK(rms.data<float>()[1] == Approx(4 / std::sqrt(12.5)));
  const Tensor bn =
      run_op("batch_norm", {floats({1, 2, 1}, {5, 7}), floats({2}, {1, 1}), floats({2}, {4, 9})},
             {1, 2, 1}, {{"eps", 0.0}});
  CHECK(values_of(bn) == std::vector<float>{2, 2});
}

TEST_CASE("data movement does not change integers and pads with the zero point",
          "[backends][reference]") {
  ProgramBuilder b;
  const TensorQParams q = quantized(0.5f, 7);
  const int x = b.input("x", DType::kInt8, {1, 2, 2}, q);
  const int p = b.op("permute", {x}, "p", DType::kInt8, {2, 2, 1}, q, {{"dims", ints({2, 1, 0})}});
  const int padded =
      b.op("pad", {p}, "padded", DType::kInt8, {2, 3, 1}, q, {{"pads", ints({0, 0, 0, 1, 0, 0})}});
  const int s = b.op("slice", {padded}, "s", DType::kInt8, {2, 2, 1}, q,
                     {{"dim", int64_t{1}}, {"start", int64_t{1}}});
  const int c = b.op("cat", {s, p}, "c", DType::kInt8, {2, 4, 1}, q, {{"dim", int64_t{1}}});
  const int r = b.op("reshape", {c}, "r", DType::kInt8, {1, 8}, q);
  b.output(b.op("expand", {r}, "e", DType::kInt8, {2, 8}, q));
  const std::vector<int8_t> values = {1, 2, 3, 4};
  const Tensor y = run(b.finish(), {Tensor::from<int8_t>(DType::kInt8, {1, 2, 2}, values)})[0];
  const std::vector<int8_t> want = {3, 7, 1, 3, 4, 7, 2, 4};
  for (size_t i = 0; i < 16; ++i) CHECK(static_cast<int>(y.data<int8_t>()[i]) == want[i % 8]);
}

TEST_CASE("quantize rounds half to even and clamps; requantize changes the scale",
          "[backends][reference]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {5});
  const int q = b.op("quantize", {x}, "q", DType::kInt8, {5}, quantized(0.5f, 0),
                     {{"quant_min", int64_t{-127}}});
  const int u = b.op("requantize", {q}, "u", DType::kUInt8, {5}, quantized(0.25f, 128));
  b.output(q);
  b.output(u);
  b.output(b.op("dequantize", {u}, "d", DType::kFloat32, {5}));
  const std::vector<Tensor> y = run(b.finish(), {floats({5}, {0.25f, 0.75f, -1e9f, 1e9f, 1.0f})});
  const std::vector<int> q_want = {0, 2, -127, 127, 2};
  const std::vector<int> u_want = {128, 132, 0, 255, 132};
  for (size_t i = 0; i < 5; ++i) {
    CHECK(static_cast<int>(y[0].data<int8_t>()[i]) == q_want[i]);
    CHECK(static_cast<int>(y[1].data<uint8_t>()[i]) == u_want[i]);
  }
  CHECK(values_of(y[2])[3] == 31.75f);
}

TEST_CASE("embedding reads rows of an integer table and refuses indices outside",
          "[backends][reference]") {
  ProgramBuilder b;
  const std::vector<uint8_t> table = {1, 2, 3, 4, 5, 6};
  const int w = b.constant("w", Tensor::from<uint8_t>(DType::kUInt8, {3, 2}, table),
                           per_channel({1.0f, 0.5f, 2.0f}, 0));
  const int i = b.input("i", DType::kInt64, {2});
  b.output(b.op("embedding", {w, i}, "y", DType::kFloat32, {2, 2}));
  const Program program = b.finish();
  const std::vector<int64_t> rows = {2, 1};
  CHECK(values_of(run(program, {Tensor::from<int64_t>(DType::kInt64, {2}, rows)})[0]) ==
        std::vector<float>{10, 12, 1.5f, 2});
  const std::vector<int64_t> outside = {3, 0};
  CHECK_THROWS_WITH(run(program, {Tensor::from<int64_t>(DType::kInt64, {2}, outside)}),
                    Catch::Contains("index 3 is outside of the table's 3 rows"));
}

TEST_CASE("upsample repeats or interpolates", "[backends][reference]") {
  const Tensor x = floats({1, 1, 1, 2}, {0, 4});
  CHECK(values_of(
            run_op("upsample", {x}, {1, 1, 1, 4},
                   {{"mode", std::string("nearest")}, {"scales", std::vector<double>{1, 0.5}}})) ==
        std::vector<float>{0, 0, 4, 4});
  CHECK(values_of(
            run_op("upsample", {x}, {1, 1, 1, 4},
                   {{"mode", std::string("bilinear")}, {"scales", std::vector<double>{1, 0.5}}})) ==
        std::vector<float>{0, 1, 3, 4});
}

TEST_CASE("an op whose shapes do not fit is refused with the shapes", "[backends][reference]") {
  ProgramBuilder b;
  const int x = b.input("x", DType::kFloat32, {1, 3});
  const int w = b.constant("w", random_floats({4, 5}));
  b.output(b.op("linear", {x, w, -1}, "y", DType::kFloat32, {1, 4}));
  CHECK(refusal(b.finish(), "reference").value_or("") ==
        "y: input [1, 3] does not fit weight [4, 5]");
}

TEST_CASE("a size is the number in its attribute, and nothing but int64 without dimensions",
          "[backends][reference]") {
  const auto program = [](DType dtype, std::vector<int64_t> shape, Attributes attributes) {
    ProgramBuilder b;
    const int size = b.op("size", {}, "n", dtype, std::move(shape), {}, std::move(attributes));
    b.output(size);
    return b.finish();
  };
  const Attributes seven = {{"value", int64_t{7}}};
  CHECK(*run(program(DType::kInt64, {}, seven), {})[0].data<int64_t>() == 7);
  CHECK(refusal(program(DType::kInt64, {}, {}), "reference").value_or("") == "n: it has no value");
  CHECK(refusal(program(DType::kInt32, {}, seven), "reference").value_or("") ==
        "n: gives int32 of shape [], want int64 without dimensions");
}

// Kernels for int16 activations give the bits of the reference on every backend.
#include <utility>

#include <catch2/catch.hpp>

#include "backends/conformance/conformance.h"
#include "backends/conformance/program_builder.h"
#include "backends/kernels/int16_product.h"

namespace octet::test_int16 {
namespace {

constexpr DType kS16 = DType::kInt16, kS8 = DType::kInt8;
constexpr const char* kBackends[] = {"onednn", "xnnpack"};

struct Conv {
  std::vector<int64_t> x, w;
  int64_t groups = 1, stride = 1, padding = 0, dilation = 1;
};

Program conv_program(const Conv& c, DType x_dtype, DType w_dtype, int64_t largest,
                     int32_t zero_point, DType out, float out_scale = 4e-4f) {
  ProgramBuilder b;
  std::vector<int64_t> y = {c.x[0], c.w[0]};
  for (size_t d = 2; d < c.x.size(); ++d)
    y.push_back((c.x[d] + 2 * c.padding - (c.w[d] - 1) * c.dilation - 1) / c.stride + 1);
  const std::vector<float> scales = random_scales(static_cast<size_t>(c.w[0]), 1e-5f, 1e-4f);
  const int x = b.input("x", x_dtype, c.x, qparams_of(x_dtype, 1e-3f, zero_point)),
            w = b.constant("w", random_integers(w_dtype, c.w, 5, -largest, largest),
                           per_channel(scales, 0)),
            bias = b.constant("b", random_floats({c.w[0]}, -1, 1, 6));
  const size_t spatial = c.x.size() - 2;
  b.output(b.op("conv", {x, w, bias}, "y", out, y,
                qparams_of(out, out == kS8 ? 0.1f : out_scale, 2),
                {{"stride", std::vector<int64_t>(spatial, c.stride)},
                 {"padding", std::vector<int64_t>(spatial, c.padding)},
                 {"dilation", std::vector<int64_t>(spatial, c.dilation)},
                 {"groups", c.groups},
                 {"post_min", -6.0}}));
  return b.finish();
}

Program linear_program(int64_t rows, int64_t in, int64_t out, int64_t weight) {
  ProgramBuilder b;
  const int x = b.input("x", kS16, {rows, in}, quantized(1e-3f, -5)),
            w = b.constant("w", random_integers(kS8, {out, in}, 2, weight, 127),
                           quantized(1e-3f, 0));
  b.output(b.op("linear", {x, w, -1}, "y", kS16, {rows, out}, quantized(0.7f, 11)));
  return b.finish();
}

}  // namespace

TEST_CASE("int16: convolutions have the bits of the reference", "[backends][onednn][xnnpack]") {
  const Conv cases[] = {{{2, 16, 5, 5}, {24, 16, 1, 1}},
                        {{1, 3, 9, 7}, {5, 3, 3, 3}, 1, 2, 1},
                        {{2, 3, 11, 10}, {5, 3, 4, 4}, 1, 3, 2},
                        {{1, 70, 6, 5}, {130, 70, 3, 3}, 1, 1, 1},
                        {{1, 37, 8, 9}, {37, 1, 3, 3}, 37, 1, 1},
                        {{1, 96, 8, 9}, {96, 1, 5, 5}, 96, 2, 2},
                        {{2, 6, 5, 5}, {4, 3, 3, 3}, 2, 1, 1},
                        {{1, 5, 40}, {7, 5, 3}, 1, 1, 1},
                        {{1, 3, 13, 14}, {5, 3, 12, 12}, 1, 1, 1},
                        {{1, 20, 12, 13}, {20, 1, 12, 12}, 20, 1, 1},
                        {{1, 3, 13, 12}, {5, 3, 3, 3}, 1, 1, 2, 2},
                        {{1, 37, 13, 12}, {37, 1, 3, 3}, 37, 1, 2, 2}};
  for (const char* backend : kBackends)
    for (const Conv& c : cases)
      for (DType w : {kS8, kS16})
        for (int32_t zero_point : {0, -321})
          for (DType out : {kS16, kS8, DType::kFloat32}) {
            CAPTURE(backend, c.x, c.w, name_of(w), zero_point, name_of(out));
            CHECK(check_against_reference(
                      conv_program(c, kS16, w, w == kS8 ? 127 : 32767, zero_point, out), backend,
                      {random_integers(kS16, c.x, 9)}) == 0);
          }
}

TEST_CASE("int16: results from bytes, and far outside of the range, have the bits of the reference",
          "[backends][onednn][xnnpack]") {
  const Conv cases[] = {{{2, 3, 9, 7}, {5, 3, 3, 3}, 1, 2, 1},
                        {{1, 37, 8, 9}, {37, 1, 3, 3}, 37, 1, 1}};
  for (const char* backend : kBackends)
    for (const Conv& c : cases)
      for (const auto& [x, zero_point] : {std::pair{kS8, -3}, {DType::kUInt8, 5}, {kS16, 7}})
        for (float scale : {4e-4f, 1e-12f}) {  // 1e-12: all results clamp
          CAPTURE(backend, c.x, name_of(x), scale);
          CHECK(check_against_reference(conv_program(c, x, kS8, 127, zero_point, kS16, scale),
                                        backend, {random_integers(x, c.x, 9)}) == 0);
        }
}

TEST_CASE("int16: a border larger than the image takes no memory", "[backends]") {
  Int16ProductTerms terms;
  terms.channels = 3;
  terms.kernel[1] = 3;
  terms.out_width = 2;
  terms.stride[1] = terms.padding[1] = 1 << 30;
  terms.x = {kS16, 1e-3f, 0};
  terms.y = {kS16, 1e-3f, 0};
  terms.weights.assign(9, 1);
  terms.scale = {1e-3};
  terms.bias = {0};
  CHECK(Int16Product(terms).scratch_bytes() < 100);
}

TEST_CASE("int16: sums of large values over a long depth are exact",
          "[backends][onednn][xnnpack]") {
  for (const char* backend : kBackends)
    for (const auto& [rows, in, out] : {std::array<int64_t, 3>{1, 5000, 3}, {7, 1031, 70}}) {
      CAPTURE(backend, rows, in, out);
      CHECK(check_against_reference(linear_program(rows, in, out, 120), backend,
                                    {random_integers(kS16, {rows, in}, 3, 32000, 32767)}) == 0);
      CHECK(check_against_reference(linear_program(rows, in, out, -127), backend,
                                    {random_integers(kS16, {rows, in}, 3)}) == 0);
    }
}

TEST_CASE("int16: products of -32768 are exact", "[backends][onednn][xnnpack]") {
  for (const char* backend : kBackends)
    for (int64_t in : {4, 300}) {
      ProgramBuilder b;
      const int x = b.input("x", kS16, {2, in}, quantized(1e-3f, 0)),
                w = b.constant("w", random_integers(kS16, {3, in}, 2, -32768, -32768),
                               quantized(1e-3f, 0));
      b.output(b.op("linear", {x, w, -1}, "y", kS16, {2, 3},
                    quantized(0.04f * static_cast<float>(in), 0)));
      const Program program = b.finish();
      CAPTURE(backend, in);
      CHECK(check_against_reference(program, backend,
                                    {random_integers(kS16, {2, in}, 3, -32768, -32768)}) == 0);
      CHECK(check_against_reference(program, backend, {random_integers(kS16, {2, in}, 4)}) == 0);
    }
}

TEST_CASE("int16: all sums round as in double", "[backends][onednn][xnnpack]") {
  std::vector<int16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int16_t>(i);
  const Tensor x = Tensor::from<int16_t>(kS16, {65536, 1}, all);
  // factors of the sums: halves, which are ties, and neighbors of halves and thirds
  std::vector<float> scales;
  for (float scale : {0.5f, 0.25f, 1.0f / 3, 1.5f, 0.01f})
    for (float step : {-0x1p-22f, -0x1p-12f, 0.0f, 0x1p-13f, 0x1p-21f})
      scales.push_back(scale * (1 + step));
  const int64_t outputs = static_cast<int64_t>(scales.size());
  for (const char* backend : kBackends)
    for (int64_t weight : {1, 256})  // 256: two digits, whose sums are added in double
      for (const auto& [bias, zero_point] : {std::pair{0.0f, 77}, {0.5f, 0}, {1234.501f, 77}}) {
        const DType dtype = weight == 1 ? kS8 : kS16;
        std::vector<float> of_weights = scales;
        for (float& scale : of_weights) scale /= static_cast<float>(weight);
        ProgramBuilder b;
        const int in = b.input("x", kS16, {65536, 1}, quantized(1, zero_point)),
                  w = b.constant("w", random_integers(dtype, {outputs, 1}, 5, weight, weight),
                                 per_channel(of_weights, 0)),
                  c = b.constant("b", random_floats({outputs}, bias, bias + 0.001f, 6));
        b.output(b.op("linear", {in, w, c}, "y", kS16, {65536, outputs}, quantized(1, -3)));
        CAPTURE(backend, weight, bias, zero_point);
        CHECK(check_against_reference(b.finish(), backend, {x}) == 0);
      }
}

TEST_CASE("int16: integers without a scale are refused", "[backends][onednn][xnnpack]") {
  for (const char* kind : {"reshape", "add"}) {
    ProgramBuilder b;
    const int x = b.input("x", kS16, {2, 6});
    const bool is_sum = std::string(kind) == "add";
    b.output(b.op(kind, is_sum ? std::vector{x, x} : std::vector{x}, "y", kS16,
                  is_sum ? std::vector<int64_t>{2, 6} : std::vector<int64_t>{3, 4}));
    for (const char* backend : kBackends) {
      CAPTURE(kind, backend);
      CHECK(refusal(b.finish(), backend).has_value());
    }
  }
}

}  // namespace octet::test_int16

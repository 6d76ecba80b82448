// Random ranges narrower than their dtype: every op that quantizes clamps to them on every backend.
#include <random>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "backends/registry.h"
#include "tests/lowering/coverage_rows.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_quantized_ranges {
using Catch::Matchers::Contains;

namespace {

class RandomSteps {
 public:
  explicit RandomSteps(uint32_t seed) : random_(seed) {}

  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  // A range that holds the zero point, now and then with an end of the dtype's.
  CoverageSteps steps() {
    const bool is_signed = between(0, 1) == 1;
    const int64_t lowest = is_signed ? -128 : 0, highest = lowest + 255;
    const int64_t zero = between(lowest + 20, highest - 20);
    const int64_t low = between(0, 4) == 0 ? lowest : between(lowest, zero - 10),
                  high = between(0, 4) == 0 ? highest : between(zero + 10, highest);
    return {is_signed ? "i8" : "u8", zero, low, high};
  }

  // What choose_qparams takes: a range that holds 0.
  CoverageSteps dynamic_steps() {
    return between(0, 1) == 1 ? CoverageSteps{"i8", 0, between(-128, -10), between(10, 127)}
                              : CoverageSteps{"u8", 0, 0, between(20, 255)};
  }

 private:
  std::mt19937 random_;
};

// The result's greatest magnitude takes 120 steps.
double result_scale(const CoverageRow& row) {
  const Graph graph = make_graph(coverage_graph(row, CoverageForm::kStatic, 0));
  return greatest_result(graph) / 120;
}

double difference_on(const std::string& backend, const CoverageRow& row, CoverageForm form,
                     double scale, const CoverageRanges& ranges) {
  const Graph graph = make_graph(coverage_graph(row, form, scale, ranges));
  return compare_on_backend(graph, backend).greatest;
}

}  // namespace

TEST_CASE("every op clamps its result to the range of the quantize after it, on every backend",
          "[lowering][ranges][tanh]") {
  RandomSteps random(20);
  for (const CoverageRow& row : coverage_rows()) {
    const double scale = result_scale(row);
    for (int draw = 0; draw < 2; ++draw) {
      CoverageRanges ranges;
      ranges.activation = random.steps();
      ranges.result = draw == 0 ? ranges.activation : random.steps();
      CAPTURE(row.item, draw, ranges.activation.dtype, ranges.activation.zero_point,
              ranges.activation.low, ranges.activation.high, ranges.result.dtype,
              ranges.result.zero_point, ranges.result.low, ranges.result.high);
      for (const std::string& backend : backend_names()) {
        CAPTURE(backend);
        CHECK(difference_on(backend, row, CoverageForm::kStatic,
                            draw == 0 ? kActivationScale : scale, ranges) <= 1);
      }
    }
  }
}

TEST_CASE("activations quantized at run time keep to narrow ranges on every backend",
          "[lowering][ranges][dynamic][tanh]") {
  RandomSteps random(21);
  for (const CoverageRow& row : coverage_rows()) {
    if (!std::string(row.item).starts_with("linear") && !std::string(row.item).starts_with("conv"))
      continue;
    for (int draw = 0; draw < 2; ++draw) {
      CoverageRanges ranges;
      ranges.dynamic = random.dynamic_steps();
      CAPTURE(row.item, ranges.dynamic.dtype, ranges.dynamic.low, ranges.dynamic.high);
      for (const std::string& backend : backend_names()) {
        CAPTURE(backend);
        CHECK(difference_on(backend, row, CoverageForm::kDynamicTensor, 0, ranges) < 1e-3);
      }
    }
  }
}

TEST_CASE("constants and rows in blocks are quantized to narrow ranges on every backend",
          "[lowering][ranges]") {
  RandomSteps random(22);
  for (int draw = 0; draw < 8; ++draw) {
    const CoverageSteps x = random.steps();
    const int64_t low = random.between(-127, -20), high = random.between(20, 127);
    const Graph graph = make_graph(fmt::format(
        R"(graph(%w = param "w": f32[3,8], %s = buffer "scale": f32[3], %z = buffer "zero": i64[3], %x: f32[2,5,8]):
  %xs: f32[2,5,1], %xz: i32[2,5,1] = torchao.choose_qparams_affine.default(%x, "{0}", [1, 1, 8], {1}, {2}, {3}, 1e-6, f32, i32)
  %xq: {1}[2,5,8] = torchao.quantize_affine.default(%x, [1, 1, 8], %xs, %xz, {1}, {2}, {3})
  %xd: f32[2,5,8] = torchao.dequantize_affine.default(%xq, [1, 1, 8], %xs, %xz, {1}, {2}, {3})
  %wq: i8[3,8] = quantized_decomposed.quantize_per_channel.default(%w, %s, %z, 0, {4}, {5}, i8)
  %wd: f32[3,8] = quantized_decomposed.dequantize_per_channel.default(%wq, %s, %z, 0, {4}, {5}, i8)
  %y: f32[2,5,3] = aten.linear.default(%xd, %wd)
  return (%y))",
        draw % 2 == 0 ? "ASYMMETRIC" : "SYMMETRIC", x.dtype, x.low, x.high, low, high));
    for (const std::string& backend : backend_names()) {
      CAPTURE(draw, backend, x.dtype, x.low, x.high, low, high);
      CHECK(compare_on_backend(graph, backend).greatest < 1e-4);
    }
  }
}

namespace {

// q and dq of %x, `call` on %d, which gives %y, and q and dq of that.
std::string lowered_pairs(const std::string& first, const std::string& call,
                          const std::string& second) {
  return lowered(make_graph(fmt::format(
      R"(graph(%x: f32[1,2,4,4]):
  %q: i8[1,2,4,4] = quantized_decomposed.quantize_per_tensor.default(%x, {0}, i8)
  %d: f32[1,2,4,4] = quantized_decomposed.dequantize_per_tensor.default(%q, {0}, i8)
  %y: f32[1,2,4,4] = {1}
  %r: i8[1,2,4,4] = quantized_decomposed.quantize_per_tensor.default(%y, {2}, i8)
  return (%r))",
      first, call, second)));
}

const std::string kPool = "aten.max_pool2d.default(%d, [1, 1])", kWide = "0.05, 3, -60, 90",
                  kNarrow = "0.05, 3, -50, 77";

}  // namespace

TEST_CASE("a quantize to a range that the integers keep already vanishes, a narrower one stays",
          "[lowering][fuse][ranges]") {
  CHECK_THAT(lowered_pairs(kNarrow, kPool, kNarrow), !Contains("requantize"));
  CHECK_THAT(lowered_pairs(kNarrow, kPool, kWide), !Contains("requantize"));
  CHECK_THAT(lowered_pairs(kWide, kPool, kNarrow),
             Contains("requantize(") && Contains("quant_max=77 quant_min=-50"));
}

TEST_CASE("a narrow range after an op without a clamp is a requantize of its integers",
          "[lowering][fuse][ranges]") {
  const std::string text = lowered_pairs(kWide, "aten.sigmoid.default(%d)", kNarrow);
  CHECK_THAT(text, Contains("i8[1,2,4,4] = unary(") && Contains("requantize(") &&
                       Contains("quant_max=77 quant_min=-50"));
  CHECK_THAT(lowered_pairs(kWide, "aten.add.Tensor(%d, %d)", kNarrow),
             Contains("post_max=3.7") && !Contains("requantize"));
}

}  // namespace octet::test_quantized_ranges

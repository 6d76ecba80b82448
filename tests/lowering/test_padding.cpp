// Uneven zero padding (TensorFlow's SAME, with stride 2) runs inside the convolution on every
// backend.
#include <catch2/catch.hpp>

#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/report.h"
#include "lowering/lower.h"
#include "tests/lowering/lowering_helpers.h"

namespace octet::test_padding {

namespace {

const char* const kPadConv =
    R"(graph(%w = buffer "w": i8[4,3,3,3], %s = buffer "w_scale": f32[4], %z = buffer "w_zero": i64[4], %x: f32[1,3,8,7]):
  %pad: f32[1,3,9,8] = aten.pad.default(%x, [0, 1, 0, 1])
  %q: i8[1,3,9,8] = quantized_decomposed.quantize_per_tensor.default(%pad, 0.01, 3, -128, 127, i8)
  %dq: f32[1,3,9,8] = quantized_decomposed.dequantize_per_tensor.default(%q, 0.01, 3, -128, 127, i8)
  %dw: f32[4,3,3,3] = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, -127, 127, i8)
  %conv: f32[1,4,4,3] = aten.conv2d.default(%dq, %dw, None, [2, 2])
  %q2: i8[1,4,4,3] = quantized_decomposed.quantize_per_tensor.default(%conv, 0.02, -4, -128, 127, i8)
  %dq2: f32[1,4,4,3] = quantized_decomposed.dequantize_per_tensor.default(%q2, 0.02, -4, -128, 127, i8)
  return (%dq2))";

Tensor ramp(const std::vector<int64_t>& shape) {
  Tensor x = Tensor::zeros(DType::kFloat32, shape);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((i * 37) % 101) / 50.0F - 1.0F;
  return x;
}

Tensor run_on(const std::string& backend, const Graph& graph, const LowerOptions& options) {
  Report report;
  Session session(lower(graph, *make_support(backend), options, report));
  return session.run({ramp({1, 3, 8, 7})}).at(0);
}

}  // namespace

TEST_CASE("uneven zero padding becomes the convolution's own", "[lowering][fuse]") {
  Report report;
  const std::string text =
      ops_text(lower(make_graph(kPadConv), *make_support("reference"), {}, report));
  INFO(text);
  CHECK(text.find("pad(") == std::string::npos);
  CHECK(text.find("padding=[0,0] padding_end=[1,1]") != std::string::npos);
}

const char* const kPadQuantizeConv =
    R"(graph(%w = buffer "w": f32[4,3,3,3], %x: f32[1,3,8,7]):
  %pad: f32[1,3,9,8] = aten.pad.default(%x, [0, 1, 0, 1]VALUE)
  %scale: f64[1], %zero: i64[1] = quantized_decomposed.choose_qparams.tensor(%pad, -128, 127, 1e-07, i8)
  %q: i8[1,3,9,8] = quantized_decomposed.quantize_per_tensor.tensor(%pad, %scale, %zero, -128, 127, i8)
  %dq: f32[1,3,9,8] = quantized_decomposed.dequantize_per_tensor.tensor(%q, %scale, %zero, -128, 127, i8)
  %conv: f32[1,4,4,3] = aten.conv2d.default(%dq, %w, None, [2, 2])
  return (%conv))";

Graph padded_at_run_time(const std::string& value) {
  std::string text = kPadQuantizeConv;
  text.replace(text.find("VALUE"), 5, value);
  return make_graph(text);
}

TEST_CASE("zero padding folds through a quantization at run time", "[lowering][fuse]") {
  Report report;
  const std::unique_ptr<BackendSupport> support = make_support("reference");
  const std::string text = ops_text(lower(padded_at_run_time(""), *support, {}, report));
  INFO(text);
  CHECK(text.find("pad(") == std::string::npos);
  CHECK(text.find("padding=[0,0] padding_end=[1,1]") != std::string::npos);
  const std::string other =
      ops_text(lower(padded_at_run_time(R"(, "constant", 0.5)"), *support, {}, report));
  INFO(other);
  CHECK(other.find("pad(") != std::string::npos);
}

TEST_CASE("uneven zero padding gives the same numbers on every backend", "[lowering][fuse]") {
  LowerOptions plain;
  plain.fuse = false;
  struct Row {
    Graph graph;
    double most;
  };
  for (const Row& row : {Row{make_graph(kPadConv), 0.0201}, Row{padded_at_run_time(""), 1e-5}}) {
    const Tensor expected = run_on("reference", row.graph, plain);
    for (const std::string& backend : backend_names()) {
      const Tensor result = run_on(backend, row.graph, {});
      double greatest = 0;
      for (int64_t i = 0; i < expected.numel(); ++i)
        greatest = std::max(greatest, std::abs(static_cast<double>(expected.data<float>()[i] -
                                                                   result.data<float>()[i])));
      INFO(backend);
      CHECK(greatest < row.most);
    }
  }
}

}  // namespace octet::test_padding

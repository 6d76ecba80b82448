// Programs of bfloat16 and float16 become float32 inside.
#include <catch2/catch.hpp>

#include "core/passes/rewrites.h"
#include "core/passes/verify.h"
#include "support/graph_matchers.h"

namespace octet::test_widen_half {
using test::PrintsAs;

TEST_CASE("widen_half: inside all is float32, outside nothing changes", "[core][widen]") {
  Graph graph = parse_graph(R"(graph(%w = param "w": bf16[4,3], %x: bf16[2,3], %n: i64[2]):
    %a: bf16[2,4] = aten.linear.default(%x, %w)
    %b: f32[2,4] = aten.to.dtype(%a, f32)
    %c: bf16[2,4] = aten._to_copy.default(%b, dtype=bf16)
    return (%c, %c, %x, %n))");
  REQUIRE(computes_in_half(graph));
  CHECK(widen_half(graph) == 4);
  verify(graph);
  CHECK_THAT(graph, PrintsAs(R"(graph(%w = param "w": f32[4,3], %x: bf16[2,3], %n: i64[2]):
    %x_float32: f32[2,3] = aten.to.dtype(%x, f32)
    %a: f32[2,4] = aten.linear.default(%x_float32, %w)
    %b: f32[2,4] = aten.to.dtype(%a, f32)
    %c: f32[2,4] = aten._to_copy.default(%b, dtype=f32)
    %c_bfloat16: bf16[2,4] = aten.to.dtype(%c, bf16)
    return (%c_bfloat16, %c_bfloat16, %x, %n))"));
  CHECK_FALSE(computes_in_half(graph));
}

TEST_CASE("widen_half: constants keep their values, and what is tied stays tied", "[core][widen]") {
  const auto narrow = [](DType dtype, std::vector<uint16_t> bits) {
    return Tensor::from<uint16_t>(dtype, {static_cast<int64_t>(bits.size())}, bits);
  };
  Graph graph = parse_graph(R"(graph(%x: f16[2]): %a: f16[2] = aten.relu.default(%x) return (%a))");
  const Tensor shared = narrow(DType::kBFloat16, {0x3f80, 0xc040});
  graph.constants["a"].tensor = shared;
  graph.constants["b"].tensor = shared;
  graph.constants["half"].tensor = narrow(DType::kFloat16, {0x0001, 0x7c00, 0xc200});
  graph.constants["int"].tensor = Tensor::zeros(DType::kInt64, {1});
  widen_half(graph);
  const auto values = [&](const char* fqn) {
    const Tensor& tensor = graph.constants.at(fqn).tensor;
    REQUIRE(tensor.dtype() == DType::kFloat32);
    return std::vector<float>(tensor.data<float>(), tensor.data<float>() + tensor.numel());
  };
  CHECK(values("a") == std::vector<float>{1, -3});
  CHECK(graph.constants["a"].tensor.storage() == graph.constants["b"].tensor.storage());
  CHECK(values("half") == std::vector<float>{0x1p-24F, INFINITY, -3});
  CHECK(graph.constants["int"].tensor.dtype() == DType::kInt64);
}

TEST_CASE("widen_half: bodies", "[core][widen]") {
  Graph graph = parse_graph(R"(graph(%p: b8[], %x: f16[2]):
    [%r: f16[2]] = higher_order.cond(%p, graph "yes" (%a: f16[2]): %b: f16[2] = aten.relu.default(%a) return (%b), graph "no" (%c: f16[2]): %d: f16[2] = aten.zeros_like.default(%c, dtype=f16) return (%d), [%x]) as call
    return (%r))");
  CHECK(widen_half(graph) == 6);
  verify(graph);
  CHECK_THAT(graph, PrintsAs(R"(graph(%p: b8[], %x: f16[2]):
    %x_float32: f32[2] = aten.to.dtype(%x, f32)
    [%r: f32[2]] = higher_order.cond(%p, graph "yes" (%a: f32[2]): %b: f32[2] = aten.relu.default(%a) return (%b), graph "no" (%c: f32[2]): %d: f32[2] = aten.zeros_like.default(%c, dtype=f32) return (%d), [%x_float32]) as call
    %r_float16: f16[2] = aten.to.dtype(%r, f16)
    return (%r_float16))"));
}

TEST_CASE("widen_half: stored float16 weights alone do not count as computation in half",
          "[core][widen]") {
  CHECK_FALSE(computes_in_half(parse_graph(
      R"(graph(%w = param "w": f32[4,3], %h = buffer "h": f16[4,3], %x: f16[2,3]):
    %a: f32[2,3] = aten.to.dtype(%x, f32)
    %b: f32[4,3] = aten.to.dtype(%h, f32)
    %c: f16[4,3] = aten.to.dtype(%w, f16)
    %d: f32[2,4] = aten.linear.default(%a, %b)
    return (%d, %c))")));
}

}  // namespace octet::test_widen_half

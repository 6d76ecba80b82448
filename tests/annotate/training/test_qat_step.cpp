// Optimizations of a training step do not change its numbers: vectorized rounding, and the scale of
// the batch norm applied to the weight.
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "annotate/flow_helpers.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/training/qat_conv_bn.h"
#include "annotate/training/qat_model.h"
#include "core/interpreter/aten_bridge.h"
#include "core/text/text.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_qat_step {
namespace {

struct Rounded {
  at::Tensor result;
  at::Tensor gradient;
};

Rounded of_aten(const at::Tensor& x, float scale, int zero_point, int64_t low, int64_t high) {
  const at::Tensor input = x.clone().requires_grad_();
  const at::Tensor result = at::fake_quantize_per_tensor_affine(
      input, at::tensor({scale}), at::tensor({zero_point}, at::kInt), low, high);
  result.square().sum().backward();
  return {result.detach(), input.grad()};
}

Rounded of_octet(const at::Tensor& x, float scale, int zero_point, int64_t low, int64_t high) {
  const at::Tensor input = x.clone().requires_grad_();
  const at::Tensor result = fake_quantize_straight_through(
      input, at::tensor({scale}), at::tensor({zero_point}, at::kInt), low, high);
  result.square().sum().backward();
  return {result.detach(), input.grad()};
}

void check_equal(const at::Tensor& x, float scale, int zero_point, int64_t low, int64_t high) {
  INFO(scale << " " << zero_point << " " << low << " " << high);
  const Rounded want = of_aten(x, scale, zero_point, low, high);
  const Rounded got = of_octet(x, scale, zero_point, low, high);
  CHECK(at::equal(got.result, want.result));
  CHECK(at::equal(got.gradient, want.gradient));
  CHECK(got.result.strides() == want.result.strides());
  const at::NoGradGuard no_grad;
  CHECK(at::equal(fake_quantize_straight_through(x, at::tensor({scale}),
                                                 at::tensor({zero_point}, at::kInt), low, high),
                  want.result));
}

// The form of a pair in training, without observer nodes.
const char* const kFused =
    R"(graph(%x: f32[2,3,6,6], %w = param "w": f32[4,3,3,3], %b = param "b": f32[4], %g = param "g": f32[4],
      %h = param "h": f32[4], %m = buffer "running_mean": f32[4], %v = buffer "running_var": f32[4]):
    %variance: f32[4] = aten.add.Tensor(%v, 0.001)
    %deviation: f32[4] = aten.sqrt.default(%variance)
    %ratio: f32[4] = aten.div.Tensor(%g, %deviation)
    %is_zero: b8[4] = aten.eq.Scalar(%g, 0)
    %scale: f32[4] = aten.masked_fill.Scalar(%ratio, %is_zero, 1)
    %factor: f32[4,1,1,1] = aten.reshape.default(%scale, [-1, 1, 1, 1])
    %scaled: f32[4,3,3,3] = aten.mul.Tensor(%w, %factor)
    %zeros: f32[4] = aten.zeros_like.default(%b, dtype=f32, pin_memory=False)
    %c: f32[2,4,4,4] = aten.conv2d.default(%x, %scaled, %zeros)
    %divisor: f32[1,4,1,1] = aten.reshape.default(%scale, [1, -1, 1, 1])
    %quotient: f32[2,4,4,4] = aten.div.Tensor(%c, %divisor)
    %addend: f32[1,4,1,1] = aten.reshape.default(%b, [1, -1, 1, 1])
    %sum: f32[2,4,4,4] = aten.add.Tensor(%quotient, %addend)
    %y: f32[2,4,4,4] = aten.batch_norm.default(%sum, %g, %h, %m, %v, True, 0.1, 0.001, False)
    return (%y))";

Graph fused() {
  Graph graph = parse_graph(kFused);
  test::fill_floats(graph);
  for (auto& [fqn, constant] : graph.constants) {
    constant.requires_grad = constant.is_parameter;
    if (fqn == "running_var") to_aten(constant.tensor).abs_().add_(0.5);
  }
  return graph;
}

// Relative to the largest magnitude.
double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / b.abs().max().item<double>();
}

}  // namespace

TEST_CASE("qat step: rounding in vectors gives ATen's numbers and gradients to the bit",
          "[annotate][qat]") {
  const at::Tensor x = at::randn({7, 5, 9}) * 40;
  for (const int zero_point : {0, -128, 13, 127}) check_equal(x, 0.17f, zero_point, -128, 127);
  check_equal(x, 0.25f, 3, 0, 7);
  check_equal(x, 0.003f, 0, -32768, 32767);
  check_equal(at::linspace(-20, 20, 81) * 0.5, 0.5f, 0, -8, 7);  // halves
  check_equal(at::tensor({1e30f, -1e30f, 0.0f, -0.0f, 1e-40f}), 0.1f, 2, -128, 127);
  check_equal(at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast), 0.01f, 0, -128,
              127);
  check_equal(at::randn({6, 8}).slice(1, 0, 8, 2), 0.01f, 0, -128, 127);  // not dense
  check_equal(at::randn({6, 8}, at::kDouble), 0.01f, 0, -128, 127);
  check_equal(x, 1e-7f, 0, -2147483647, 2147483647);  // more steps than floats tell apart
}

TEST_CASE("qat step: the gradient of a transposed result reaches its place", "[annotate][qat]") {
  const at::Tensor x = at::linspace(-1, 1, 12).reshape({3, 4});
  const at::Tensor ours = x.clone().requires_grad_();
  const at::Tensor theirs = x.clone().requires_grad_();
  const at::Tensor scale = at::tensor({0.01f});
  const at::Tensor zero_point = at::tensor({0}, at::kInt);
  const at::Tensor weights = at::arange(12, at::kFloat).reshape({4, 3});
  (fake_quantize_straight_through(ours, scale, zero_point, -64, 63).t() * weights).sum().backward();
  (at::fake_quantize_per_tensor_affine(theirs, scale, zero_point, -64, 63).t() * weights)
      .sum()
      .backward();
  CHECK(at::equal(ours.grad(), theirs.grad()));
}

TEST_CASE(
    "qat step: weights divided by the scale give the results and gradients of divided results",
    "[annotate][qat]") {
  const Graph graph = fused();
  std::unique_ptr<Graph> moved = clone(graph);
  CHECK(move_scale_to_weight(*moved) == 1);
  const Node& conv = *moved->nodes_of("aten.conv2d").at(0);
  CHECK(conv.find_input("weight")->producer()->target() == "aten.div.Tensor");
  CHECK(conv.find_input("bias")->name() == "b");
  CHECK(moved->nodes_of("aten.batch_norm").at(0)->find_input("input") == conv.output());
  TrainableGraph before(graph);
  TrainableGraph after(*moved);
  const std::vector<c10::IValue> inputs = test::random_inputs(graph);
  const at::Tensor want = before.run(inputs)[0].toTensor();
  const at::Tensor got = after.run(inputs)[0].toTensor();
  CHECK(distance(got, want) < 1e-5);
  const at::Tensor weights = at::randn_like(want);
  (want * weights).sum().backward();
  (got * weights).sum().backward();
  for (const char* name : {"w", "g", "h"})
    CHECK(distance(after.tensors().at(name).grad(), before.tensors().at(name).grad()) < 1e-4);
  CHECK(distance(after.tensors().at("running_var"), before.tensors().at("running_var")) < 1e-5);
}

TEST_CASE("qat step: a convolution's result that others read is still divided", "[annotate][qat]") {
  std::string text = kFused;
  text.replace(text.find("return (%y)"), 11, "return (%y, %c)");
  Graph graph = parse_graph(text);
  CHECK(move_scale_to_weight(graph) == 0);
  CHECK(to_text(graph) == to_text(parse_graph(text)));
}

}  // namespace octet::test_qat_step

// Batch norm folding: the structure afterwards, and equal results.
#include <catch2/catch.hpp>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include "core/interpreter/interpreter.h"
#include "core/passes/fold_conv_bn.h"
#include "core/passes/verify.h"
#include "support/graph_matchers.h"
#include "support/tensor_matchers.h"

namespace octet::test_fold_conv_bn {
using test::AllClose;
using test::BitEqual;
using test::PrintsAsUntyped;

namespace {

const c10::TensorOptions kF32 = c10::TensorOptions().dtype(c10::kFloat);

// Normal numbers; variances and gammas above 0.5, so that folding is well conditioned.
void fill_constants(Graph& graph) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  for (auto& [fqn, constant] : graph.constants) {
    if (constant.tensor.dtype() != DType::kFloat32) continue;
    const bool is_positive = fqn.ends_with("var") || fqn.ends_with("gamma");
    constant.tensor =
        from_aten(is_positive ? at::rand(constant.tensor.shape(), generator, kF32).add(0.5)
                              : at::randn(constant.tensor.shape(), generator, kF32));
  }
}

at::Tensor run(const Graph& graph, const at::Tensor& x) {
  return Interpreter(graph).run({x}).at(0).toTensor();
}

// Folds a copy, checks that it has `folds` folds, that a second run finds nothing, and that the
// result agrees with the original graph.
Graph check_fold(const std::string& text, int folds, double atol = 1e-4) {
  Graph graph = parse_graph(text);
  fill_constants(graph);
  const std::unique_ptr<Graph> before = clone(graph);
  CHECK(fold_conv_bn(graph) == folds);
  verify(graph);
  CHECK(fold_conv_bn(graph) == 0);
  at::Generator generator = at::detail::createCPUGenerator(1);
  const at::Tensor x = at::randn(graph.user_inputs().front()->meta->shape(), generator, kF32);
  CHECK_THAT(run(graph, x), AllClose(run(*before, x), atol, 1e-4));
  return graph;
}

const std::string kStatistics =
    R"(%g = param "bn.gamma": f32[4], %e = param "bn.beta": f32[4], %m = buffer "bn.running_mean": f32[4], %v = buffer "bn.running_var": f32[4],
    %n = buffer "bn.num_batches_tracked": i64[])";

}  // namespace

TEST_CASE("fold_conv_bn: conv2d without bias gets one named after the weight; dead inputs go",
          "[core][fold]") {
  const Graph graph = check_fold(
      "graph(%w = param \"conv.weight\": f32[4,3,3,3], " + kStatistics + R"(, %x: f32[1,3,8,8]):
    %y: f32[1,4,6,6] = aten.conv2d(%x, %w)
    %z: f32[1,4,6,6] = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 0.001, True)
    %r: f32[1,4,6,6] = aten.relu(%z)
    return (%r))",
      1);
  CHECK_THAT(
      graph,
      PrintsAsUntyped(
          R"(graph(%w = param "conv.weight", %p_conv_weight_bias = param "conv.weight_bias", %x):
    %y = aten.conv2d.default(%x, %w, %p_conv_weight_bias)
    %r = aten.relu.default(%y)
    return (%r))"));
  CHECK(graph.constants.size() == 2);
}

TEST_CASE("fold_conv_bn: the folded numbers are torch's to the last bit", "[core][fold]") {
  Graph graph = parse_graph("graph(%w = param \"w\": f32[4,3,3,3], %b = param \"b\": f32[4], " +
                            kStatistics + R"(, %x: f32[1,3,8,8]):
    %y: f32[1,4,6,6] = aten.conv2d(%x, %w, %b) %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 0.001, True) return (%z))");
  fill_constants(graph);
  const c10::AutoGradMode no_grad(false);
  const auto constant = [&](const char* fqn) {
    return to_aten(graph.constants.at(fqn).tensor).clone();
  };
  const at::Tensor r = constant("bn.running_var").add(0.001).rsqrt();
  const at::Tensor weight = constant("w").mul(constant("bn.gamma").mul(r).reshape({-1, 1, 1, 1}));
  const at::Tensor bias = constant("b")
                              .sub(constant("bn.running_mean"))
                              .mul(r)
                              .mul(constant("bn.gamma"))
                              .add(constant("bn.beta"));
  REQUIRE(fold_conv_bn(graph) == 1);
  CHECK_THAT(constant("w"), BitEqual(weight));
  CHECK_THAT(constant("b"), BitEqual(bias));
}

TEST_CASE("fold_conv_bn: all ranks, padding overloads and missing gamma and beta", "[core][fold]") {
  check_fold("graph(%w = param \"w\": f32[4,3,3], " + kStatistics + R"(, %x: f32[1,3,8]):
    %y: f32[1,4,6] = aten.conv1d.default(%x, %w) %z = aten.batch_norm(%y, None, None, %m, %v, False, 0.1, 1e-05, True) return (%z))",
             1);
  check_fold("graph(%w = param \"w\": f32[4,3,3,3,3], " + kStatistics + R"(, %x: f32[1,3,4,4,4]):
    %y: f32[1,4,2,2,2] = aten.conv3d.default(%x, %w) %z = aten.batch_norm(%y, %g, None, %m, %v, False, 0.1, 1e-05, True) return (%z))",
             1);
  check_fold("graph(%w = param \"w\": f32[4,3,3,3], " + kStatistics + R"(, %x: f32[1,3,8,8]):
    %y: f32[1,4,8,8] = aten.conv2d.padding(%x, %w, None, [1, 1], "same") %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))",
             1);
  check_fold("graph(%w = param \"w\": f32[4,3], " + kStatistics + R"(, %x: f32[2,3]):
    %y: f32[2,4] = aten.linear(%x, %w) %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))",
             1);
}

TEST_CASE("fold_conv_bn: transposed convolutions, with groups", "[core][fold]") {
  check_fold("graph(%w = param \"w\": f32[3,4,3,3], " + kStatistics + R"(, %x: f32[1,3,8,8]):
    %y: f32[1,4,10,10] = aten.conv_transpose2d.input(%x, %w) %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))",
             1);
  check_fold("graph(%w = param \"w\": f32[6,2,3,3], %b = param \"b\": f32[4], " + kStatistics +
                 R"(, %x: f32[1,6,8,8]):
    %y: f32[1,4,10,10] = aten.conv_transpose2d.input(%x, %w, %b, [1, 1], [0, 0], [0, 0], 2)
    %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))",
             1);
}

TEST_CASE("fold_conv_bn: transposed convolutions of one and three dimensions, with groups",
          "[core][fold]") {
  check_fold("graph(%w = param \"w\": f32[6,2,3], " + kStatistics + R"(, %x: f32[1,6,8]):
    %y: f32[1,4,10] = aten.conv_transpose1d.default(%x, %w, None, [1], [0], [0], 2)
    %z = aten.batch_norm(%y, None, None, %m, %v, False, 0.1, 0.003, True) return (%z))",
             1);
  check_fold("graph(%w = param \"w\": f32[4,1,2,2,2], " + kStatistics + R"(, %x: f32[1,4,3,3,3]):
    %y: f32[1,4,4,4,4] = aten.conv_transpose3d.input(%x, %w, None, [1, 1, 1], [0, 0, 0], [0, 0, 0], 4)
    %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))",
             1);
}

TEST_CASE("fold_conv_bn: a depthwise convolution, a dilated one with padding by name",
          "[core][fold]") {
  check_fold("graph(%w = param \"w\": f32[4,1,3,3], " + kStatistics + R"(, %x: f32[1,4,8,8]):
    %y: f32[1,4,4,4] = aten.conv2d.default(%x, %w, None, [2, 2], [1, 1], [1, 1], 4)
    %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 0.01, True) return (%z))",
             1);
  check_fold("graph(%w = param \"w\": f32[4,3,3], %b = param \"b\": f32[4], " + kStatistics +
                 R"(, %x: f32[1,3,8]):
    %y: f32[1,4,8] = aten.conv1d.padding(%x, %w, %b, [1], "same", [2])
    %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))",
             1);
  check_fold("graph(%w = param \"w\": f32[4,3,3,3,3], " + kStatistics + R"(, %x: f32[1,3,4,4,4]):
    %y: f32[1,4,2,2,2] = aten.conv3d.padding(%x, %w, None, [1, 1, 1], "valid")
    %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))",
             1);
}

TEST_CASE("fold_conv_bn: a linear over three dimensions whose channels a layout op puts second",
          "[core][fold]") {
  const std::string head = "graph(%w = param \"w\": f32[4,3], " + kStatistics +
                           ", %x: f32[2,5,3]): %y: f32[2,5,4] = aten.linear(%x, %w) ";
  const Graph transposed = check_fold(head + R"(%t: f32[2,4,5] = aten.transpose.int(%y, 1, 2)
    %z: f32[2,4,5] = aten.batch_norm(%t, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))",
                                      1);
  CHECK_THAT(transposed, PrintsAsUntyped(R"(graph(%w = param "w", %p_w_bias = param "w_bias", %x):
    %y = aten.linear.default(%x, %w, %p_w_bias) %t = aten.transpose.int(%y, 1, 2) return (%t))"));
  check_fold(head + R"(%t: f32[2,4,5] = aten.permute.default(%y, [0, -1, 1])
    %z: f32[2,4,5] = aten.batch_norm(%t, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))",
             1);
  check_fold(head + R"(%t: f32[10,4] = aten.view.default(%y, [10, 4])
    %z: f32[10,4] = aten.batch_norm(%t, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))",
             1);
  SECTION("not when the layout op mixes the channels or another reads the tensor between") {
    check_fold("graph(%w = param \"w\": f32[4,3], " + kStatistics +
                   R"(, %x: f32[4,5,3]): %y: f32[4,5,4] = aten.linear(%x, %w)
      %t: f32[5,4,4] = aten.transpose.int(%y, 0, 1) %z: f32[5,4,4] = aten.batch_norm(%t, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))",
               0);
    check_fold(head + R"(%t: f32[10,4] = aten.view.default(%y, [10, 4])
      %z: f32[10,4] = aten.batch_norm(%t, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z, %t))",
               0);
  }
  SECTION("not as torchao does it") {
    Graph graph = parse_graph(head + R"(%t: f32[2,4,5] = aten.transpose.int(%y, 1, 2)
      %z: f32[2,4,5] = aten.batch_norm(%t, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))");
    fill_constants(graph);
    CHECK(fold_conv_bn(graph, {.check_users = false}) == 0);
  }
}

TEST_CASE("fold_conv_bn: _native_batch_norm_legit_no_training with unused statistics",
          "[core][fold]") {
  const Graph graph =
      check_fold("graph(%w = param \"w\": f32[4,3,3,3], " + kStatistics + R"(, %x: f32[1,3,8,8]):
    %y: f32[1,4,6,6] = aten.conv2d(%x, %w)
    %z, %s, %t = aten._native_batch_norm_legit_no_training.default(%y, %g, %e, %m, %v, 0.1, 0.001)
    return (%z))",
                 1);
  CHECK(graph.node_count() == 1);
}

TEST_CASE("fold_conv_bn: what must not be folded stays", "[core][fold]") {
  const std::string head = "graph(%w = param \"w\": f32[4,3,3,3], " + kStatistics +
                           ", %x: f32[1,3,8,8]): %y: f32[1,4,6,6] = aten.conv2d(%x, %w) ";
  SECTION("another user of the convolution") {
    check_fold(head +
                   "%z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) %s = "
                   "aten.add.Tensor(%z, %y) return (%s)",
               0);
  }
  SECTION("the convolution is an output") {
    check_fold(
        head + "%z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z, %y)",
        0);
  }
  SECTION("training mode") {
    Graph graph = parse_graph(
        head + "%z = aten.batch_norm(%y, %g, %e, %m, %v, True, 0.1, 1e-05, True) return (%z)");
    CHECK(fold_conv_bn(graph) == 0);
  }
  SECTION("running statistics that the program changes") {
    Graph graph = parse_graph(head +
                              "%z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) "
                              "return (%z, mutate \"bn.running_mean\" = %m)");
    CHECK(fold_conv_bn(graph) == 0);
  }
  SECTION("a linear over three dimensions") {
    check_fold("graph(%w = param \"w\": f32[5,3], " + kStatistics + R"(, %x: f32[2,4,3]):
      %y: f32[2,4,5] = aten.linear(%x, %w) %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) return (%z))",
               0);
  }
}

TEST_CASE("fold_conv_bn: without the check of users others see the folded output", "[core][fold]") {
  Graph graph =
      parse_graph("graph(%w = param \"w\": f32[4,3,3,3], " + kStatistics + R"(, %x: f32[1,3,8,8]):
    %y: f32[1,4,6,6] = aten.conv2d(%x, %w) %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) %s = aten.add.Tensor(%z, %y) return (%s))");
  fill_constants(graph);
  CHECK(fold_conv_bn(graph, {.check_users = false}) == 1);
  verify(graph);
  CHECK_THAT(graph, PrintsAsUntyped(R"(graph(%w = param "w", %p_w_bias = param "w_bias", %x):
    %y = aten.conv2d.default(%x, %w, %p_w_bias) %s = aten.add.Tensor(%y, %y) return (%s))"));
}

TEST_CASE(
    "fold_conv_bn: without the check of users the first batch norm of a weight is taken for all",
    "[core][fold]") {
  Graph graph = parse_graph(
      "graph(%w = param \"w\": f32[4,3,3,3], %b = param \"b\": f32[4], " + kStatistics +
      R"(, %m2 = buffer "b2.mean": f32[4], %v2 = buffer "b2.var": f32[4], %x: f32[1,3,8,8]):
    %y: f32[1,4,6,6] = aten.conv2d(%x, %w, %b) %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True)
    %y2: f32[1,4,6,6] = aten.conv2d(%x, %w, %b) %z2 = aten.batch_norm(%y2, None, None, %m2, %v2, False, 0.1, 1e-05, True) return (%z, %z2))");
  fill_constants(graph);
  CHECK(fold_conv_bn(graph, {.check_users = false}) == 2);
  verify(graph);
  CHECK_THAT(graph, PrintsAsUntyped(R"(graph(%w = param "w", %b = param "b", %x):
    %y = aten.conv2d.default(%x, %w, %b) %y2 = aten.conv2d.default(%x, %w, %b) return (%y, %y2))"));
}

TEST_CASE(
    "fold_conv_bn: without the check of users the second batch norm of a convolution vanishes",
    "[core][fold]") {
  const std::string weight = "graph(%w = param \"w\": f32[4,3,3,3], " + kStatistics;
  const std::string other = R"(, %m2 = buffer "b2.mean": f32[4], %v2 = buffer "b2.var": f32[4])";
  const std::string first = R"(, %x: f32[1,3,8,8]): %y: f32[1,4,6,6] = aten.conv2d(%x, %w)
    %z: f32[1,4,6,6] = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True) )";
  Graph alone = parse_graph(weight + first + "%t = aten.neg.default(%z) return (%t)");
  fill_constants(alone);
  const std::map<std::string, Constant> constants = alone.constants;
  CHECK(fold_conv_bn(alone, {.check_users = false}) == 1);
  for (const std::string input : {"%z", "%y"}) {  // one after the other, and side by side
    Graph both = parse_graph(weight + other + first + "%z2: f32[1,4,6,6] = aten.batch_norm(" +
                             input + R"(, None, None, %m2, %v2, False, 0.1, 1e-05, True)
      %t = aten.neg.default(%z2) return (%t))");
    fill_constants(both);
    for (const auto& [fqn, constant] : constants) both.constants.at(fqn) = constant;
    CHECK(fold_conv_bn(both, {.check_users = false}) == 2);
    verify(both);
    CHECK_THAT(both, PrintsAsUntyped(R"(graph(%w = param "w", %p_w_bias = param "w_bias", %x):
      %y = aten.conv2d.default(%x, %w, %p_w_bias) %t = aten.neg.default(%y) return (%t))"));
    for (const char* fqn : {"w", "w_bias"})
      CHECK_THAT(both.constants.at(fqn).tensor, BitEqual(alone.constants.at(fqn).tensor));
  }
}

TEST_CASE(
    "fold_conv_bn: a weight with two batch norms is copied, a module called twice is folded once",
    "[core][fold]") {
  SECTION("two batch norms") {
    const Graph graph = check_fold(
        "graph(%w = param \"w\": f32[4,3,3,3], " + kStatistics +
            R"(, %m2 = buffer "b2.mean": f32[4], %v2 = buffer "b2.var": f32[4], %x: f32[1,3,8,8]):
      %y: f32[1,4,6,6] = aten.conv2d(%x, %w) %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True)
      %y2: f32[1,4,6,6] = aten.conv2d(%x, %w) %z2 = aten.batch_norm(%y2, None, None, %m2, %v2, False, 0.1, 1e-05, True)
      %s = aten.add.Tensor(%z, %z2) return (%s))",
        2);
    CHECK(graph.constants.size() == 4);
  }
  SECTION("one batch norm") {
    const Graph graph =
        check_fold("graph(%w = param \"w\": f32[4,3,3,3], " + kStatistics + R"(, %x: f32[1,3,8,8]):
      %y: f32[1,4,6,6] = aten.conv2d(%x, %w) %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True)
      %y2: f32[1,4,6,6] = aten.conv2d(%x, %w) %z2 = aten.batch_norm(%y2, %g, %e, %m, %v, False, 0.1, 1e-05, True)
      %s = aten.sub.Tensor(%z, %z2) return (%s))",
                   2);
    CHECK(graph.constants.size() == 2);
  }
  SECTION("another user of the weight") {
    const Graph graph =
        check_fold("graph(%w = param \"w\": f32[4,3,3,3], " + kStatistics + R"(, %x: f32[1,3,8,8]):
      %y: f32[1,4,6,6] = aten.conv2d(%x, %w) %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True)
      %y2: f32[1,4,6,6] = aten.conv2d(%x, %w) %s = aten.add.Tensor(%z, %y2) return (%s))",
                   1);
    CHECK(graph.constants.size() == 3);
  }
}

TEST_CASE("fold_conv_bn: a batch norm after a batch norm is folded too", "[core][fold]") {
  check_fold(
      "graph(%w = param \"w\": f32[4,3,3,3], " + kStatistics +
          R"(, %m2 = buffer "b2.mean": f32[4], %v2 = buffer "b2.var": f32[4], %x: f32[1,3,8,8]):
    %y: f32[1,4,6,6] = aten.conv2d(%x, %w) %z = aten.batch_norm(%y, %g, %e, %m, %v, False, 0.1, 1e-05, True)
    %z2 = aten.batch_norm(%z, None, None, %m2, %v2, False, 0.1, 1e-05, True) return (%z2))",
      2);
}

}  // namespace octet::test_fold_conv_bn

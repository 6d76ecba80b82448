// The small passes: scalars to constants, removal of dead code.
#include <catch2/catch.hpp>

#include "core/passes/rewrites.h"
#include "core/passes/set_training.h"
#include "core/passes/verify.h"
#include "support/graph_matchers.h"

namespace octet::test_passes {
using test::PrintsAsUntyped;

TEST_CASE("scalars_to_constants: numbers of float add and mul become f32 buffers",
          "[core][scalars]") {
  Graph graph = parse_graph(R"(graph(%x: f32[2]):
    %a: f32[2] = aten.add.Tensor(%x, 1, alpha=2) %b: f32[2] = aten.mul.Tensor(%a, 0.5) %c: f32[2] = aten.sub.Tensor(%b, 3) return (%c))");
  CHECK(scalars_to_constants(graph) == 2);
  verify(graph);
  CHECK_THAT(
      graph,
      PrintsAsUntyped(
          R"(graph(%b__tensor_constant_0 = buffer "_tensor_constant_0", %b__tensor_constant_1 = buffer "_tensor_constant_1", %x):
    %a = aten.add.Tensor(%x, %b__tensor_constant_0, alpha=2)
    %b = aten.mul.Tensor(%a, %b__tensor_constant_1)
    %c = aten.sub.Tensor(%b, 3)
    return (%c))"));
  CHECK(*graph.constants.at("_tensor_constant_1").tensor.data<float>() == 0.5F);
  CHECK(graph.constants.at("_tensor_constant_0").tensor.shape().empty());
  CHECK(scalars_to_constants(graph) == 0);
}

TEST_CASE("scalars_to_constants: integer arithmetic stays, unless all ops are asked for",
          "[core][scalars]") {
  Graph graph = parse_graph("graph(%x: i64[2]): %a: i64[2] = aten.add.Tensor(%x, 1) return (%a)");
  CHECK(scalars_to_constants(graph) == 0);
  CHECK(scalars_to_constants(graph, ScalarOps::kAll) == 1);
  CHECK(*graph.constants.at("_tensor_constant_0").tensor.data<float>() == 1.0F);
}

TEST_CASE("inline_bodies: a body under no_grad replaces its call", "[core][inline]") {
  Graph graph = parse_graph(R"(graph(%x: f32[2], %y: f32[2]):
    %b: f32[2] = aten.relu.default(%x)
    [%r: f32[2], %s: f32[2]] = higher_order.wrap_with_set_grad_enabled(False, graph "body" (%a: f32[2], %b: f32[2]): %c: f32[2] = aten.add.Tensor(%a, %b) return (%c, %a), %y, %b) as call
    %z: f32[2] = aten.mul.Tensor(%r, %s)
    return (%z))");
  CHECK(inline_bodies(graph) == 1);
  verify(graph);
  CHECK_THAT(graph, PrintsAsUntyped(R"(graph(%x, %y):
    %b = aten.relu.default(%x)
    %c = aten.add.Tensor(%y, %b)
    %z = aten.mul.Tensor(%c, %y)
    return (%z))"));
  CHECK(inline_bodies(graph) == 0);
}

TEST_CASE("inline_bodies: autocast counts where it is on", "[core][inline]") {
  const auto calls = [](const std::string& enabled) {
    Graph graph = parse_graph(
        "graph(%x: f32[2]): [%r: f32[2]] = higher_order.wrap_with_autocast(\"cpu\", None, " +
        enabled +
        ", None, graph \"body\" (%a: f32[2]): %c: f32[2] = aten.relu.default(%a) return (%c), %x) "
        "as call return (%r)");
    return inline_bodies(graph);
  };
  CHECK(calls("False") == 1);
  CHECK(calls("True") == 0);
}

TEST_CASE("remove_dead: unused chains go, in one run", "[core][dead]") {
  Graph graph = parse_graph(
      "graph(%x: f32[2]): %a = aten.relu(%x) %b = aten.sigmoid(%a) %c = aten.tanh(%x) return (%c)");
  CHECK(remove_dead(graph) == 2);
  CHECK(remove_dead(graph) == 0);
  CHECK_THAT(graph, PrintsAsUntyped("graph(%x): %c = aten.tanh.default(%x) return (%c)"));
}

TEST_CASE("remove_dead: writes, assertions, random numbers and unknown ops stay", "[core][dead]") {
  Graph graph = parse_graph(R"(graph(%x: f32[2], %n: int):
    %a = aten.relu_(%x) aten._assert_scalar.default(%n, "n") %r = aten.rand_like(%x) %o = my.op.default(%x) return (%x))");
  CHECK(remove_dead(graph) == 0);
  CHECK(graph.node_count() == 4);
}

TEST_CASE("remove_dead: a batch norm stays in training mode only", "[core][dead]") {
  for (const char* training : {"True", "False"}) {
    Graph graph = parse_graph(std::string("graph(%x: f32[2,4], %m: f32[4], %v: f32[4]): %b = "
                                          "aten.batch_norm(%x, None, None, %m, %v, ") +
                              training + ", 0.1, 1e-05, True) return (%x)");
    CHECK(remove_dead(graph) == (std::string(training) == "True" ? 0 : 1));
  }
}

TEST_CASE("remove_dead: unused constants are removed on request, mutated ones and user inputs stay",
          "[core][dead]") {
  Graph graph = parse_graph(
      R"(graph(%w = param "w": f32[2], %b = buffer "b": f32[2], %x: f32[2], %y: f32[2]): return (%y, mutate "b" = %x))");
  graph.constants["orphan"] = {Tensor::zeros(DType::kFloat32, {1}), false, false};
  CHECK(remove_dead(graph) == 0);
  CHECK(remove_dead(graph, DeadInputs::kRemove) == 1);
  CHECK_THAT(graph,
             PrintsAsUntyped(R"(graph(%b = buffer "b", %x, %y): return (%y, mutate "b" = %x))"));
  CHECK(graph.constants.size() == 1);
}

TEST_CASE("set_training flips the flags and keeps eps, momentum and p", "[core][training]") {
  Graph graph =
      parse_graph(R"(graph(%m = buffer "mean": f32[3], %v = buffer "var": f32[3], %x: f32[2,3]):
    %y: f32[2,3] = aten.batch_norm.default(%x, None, None, %m, %v, True, 0.03, 0.001, False)
    %z: f32[2,3] = aten.dropout.default(%y, 0.1, True) return (%z))");
  CHECK(set_training(graph, Mode::kEvaluation) == 2);
  CHECK(set_training(graph, Mode::kEvaluation) == 0);
  CHECK_FALSE(graph.find_node("y")->bool_or("training", true));
  CHECK(graph.find_node("y")->float_or("eps", 0) == 0.001);
  CHECK(graph.find_node("y")->float_or("momentum", 0) == 0.03);
  CHECK(graph.find_node("z")->float_or("p", 0) == 0.1);
  CHECK(set_training(graph, Mode::kTraining) == 2);
}

TEST_CASE("ops in training mode: those that compute something else in evaluation",
          "[core][training]") {
  const std::string head = R"(graph(%m = buffer "mean": f32[3], %v = buffer "var": f32[3],
    %q: f32[1,2,4,8], %x: f32[2,3]):
    )";
  const auto count = [&](const std::string& body) {
    return find_training_ops(parse_graph(head + body + " return (%y)")).size();
  };
  CHECK(count("%y: f32[2,3] = aten.batch_norm.default(%x, None, None, %m, %v, True, 0.1, 1e-5, "
              "False)") == 1);
  CHECK(count("%y: f32[2,3] = aten.batch_norm.default(%x, None, None, %m, %v, False, 0.1, 1e-5, "
              "False)") == 0);
  // track_running_stats=False
  const std::string own =
      "%y: f32[2,3] = aten.batch_norm.default(%x, None, None, None, None, True, "
      "0.1, 1e-5, False)";
  CHECK(count(own) == 0);
  Graph graph = parse_graph(head + own + " return (%y)");
  CHECK(set_training(graph, Mode::kEvaluation) == 0);
  CHECK(
      count("%y: f32[1,2,4,8] = aten.instance_norm.default(%q, None, None, None, None, True, 0.1, "
            "1e-5, False)") == 0);
  CHECK(count("%y: f32[1,2,4,8] = aten.instance_norm.default(%q, None, None, %m, %v, True, 0.1, "
              "1e-5, False)") == 1);
  CHECK(count("[%y: f32[2,3], %a: f32[3], %b: f32[3]] = aten.native_batch_norm.default(%x, None, "
              "None, %m, %v, True, 0.1, 1e-5)") == 1);
  CHECK(count("%y: f32[2,3] = aten.dropout.default(%x, 0.1, True)") == 1);
  CHECK(count("%y: f32[2,3] = aten.dropout_.default(%x, 0.1, True)") == 1);
  CHECK(count("%y: f32[2,3] = aten.dropout.default(%x, 0.1, False)") == 0);
  CHECK(count("%y: f32[2,3] = aten.dropout.default(%x, 0.0, True)") == 0);
  CHECK(count("%y: f32[1,2,4,8] = aten.scaled_dot_product_attention.default(%q, %q, %q, None, "
              "0.1)") == 1);
  CHECK(count("%y: f32[1,2,4,8] = aten.scaled_dot_product_attention.default(%q, %q, %q)") == 0);
}

}  // namespace octet::test_passes

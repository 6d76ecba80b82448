// Edits of graphs keep users, names and constants consistent.
#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "core/passes/verify.h"
#include "support/graph_matchers.h"

namespace octet::test_graph {
using test::PrintsAs;

TEST_CASE("graph: insert places a node before another and names it freshly", "[core][graph]") {
  Graph graph = parse_graph("graph(%x: f32[2]): %y: f32[2] = aten.relu.default(%x) return (%y)");
  Node* relu = graph.find_node("y");
  Node* sigmoid = graph.insert("aten.sigmoid.default", {{"self", graph.find_value("x")}}, "y",
                               make_meta(DType::kFloat32, {2}), relu);
  relu->set_argument("self", sigmoid->output());
  verify(graph);
  CHECK_THAT(graph, PrintsAs(R"(graph(%x: f32[2]):
    %y_1: f32[2] = aten.sigmoid.default(%x)
    %y: f32[2] = aten.relu.default(%y_1)
    return (%y))"));
}

TEST_CASE("graph: replace_uses rewrites nodes and outputs", "[core][graph]") {
  Graph graph = parse_graph(
      "graph(%x: f32[2]): %y = aten.relu(%x) %z = aten.add.Tensor(%y, %y) return (%y, %z)");
  graph.replace_uses(graph.find_value("y"), graph.find_value("x"));
  CHECK(graph.find_value("y")->is_unused());
  graph.erase(*graph.find_node("y"));
  verify(graph);
  CHECK_THAT(graph, PrintsAs("graph(%x: f32[2]): %z = aten.add.Tensor(%x, %x) return (%x, %z)"));
}

TEST_CASE("graph: a node that uses a value twice is one user", "[core][graph]") {
  Graph graph = parse_graph("graph(%x: f32[2]): %z = aten.add.Tensor(%x, %x) return (%z)");
  CHECK(graph.find_value("x")->users().size() == 1);
  CHECK(graph.find_value("x")->has_one_user());
}

TEST_CASE("graph: an output counts as a use", "[core][graph]") {
  Graph graph =
      parse_graph("graph(%x: f32[2]): %y = aten.relu(%x) %z = aten.relu(%y) return (%y, %z)");
  CHECK_FALSE(graph.find_value("y")->has_one_user());
  CHECK_THROWS_AS(graph.erase(*graph.find_node("z")), InternalError);
}

TEST_CASE("graph: add_constant makes fresh names and inserts before the user inputs",
          "[core][graph]") {
  Graph graph = parse_graph(R"(graph(%p_w = param "w": f32[2], %x: f32[2]): return (%x))");
  Value* added =
      graph.add_constant("w", Tensor::zeros(DType::kFloat32, {3}), InputKind::kParameter);
  CHECK(graph.find_input(added)->fqn == "w_1");
  CHECK(graph.inputs()[1].value == added);
  CHECK(graph.find_constant(added)->shape() == std::vector<int64_t>{3});
  graph.erase_input(*added);
  CHECK_FALSE(graph.constants.contains("w_1"));
}

TEST_CASE("graph: is() knows overloads and in-place twins", "[core][graph]") {
  Graph graph =
      parse_graph("graph(%x: f32[2]): %y = aten.relu_(%x) %z = aten.add.Tensor(%y, 1) return (%z)");
  CHECK(graph.find_node("y")->is("aten.relu"));
  CHECK(graph.find_node("y")->is("aten.relu_.default"));
  CHECK_FALSE(graph.find_node("y")->is("aten.relu.default"));
  CHECK(graph.find_node("z")->is("aten.add"));
  CHECK_FALSE(graph.find_node("z")->is("aten.add.Scalar"));
}

TEST_CASE("graph: a clone prints the same and is independent", "[core][graph]") {
  Graph graph = parse_graph("graph(%x: f32[2]): %y = aten.relu(%x) return (%y)");
  std::unique_ptr<Graph> copy = clone(graph);
  CHECK(to_text(*copy) == to_text(graph));
  copy->rename(*copy->find_node("y"), "other");
  CHECK(graph.find_value("y") != nullptr);
  CHECK(copy->find_value("y") == nullptr);
  verify(*copy);
}

TEST_CASE("graph: is_before follows the positions after moves", "[core][graph]") {
  Graph graph =
      parse_graph("graph(%x: f32[2]): %a = aten.relu(%x) %b = aten.sigmoid(%x) return (%a, %b)");
  Node *a = graph.find_node("a"), *b = graph.find_node("b");
  CHECK(graph.is_before(*a, *b));
  graph.move_before(*b, a);
  CHECK(graph.is_before(*b, *a));
}

TEST_CASE("graph: reading an argument of the wrong kind names node and argument", "[core][graph]") {
  Graph graph = parse_graph("graph(%x: f32[2], %n: int): %y = aten.view(%x, [%n]) return (%y)");
  CHECK_THROWS_WITH(graph.find_node("y")->ints_or("size", {}),
                    Catch::Contains("y (aten.view.default)") && Catch::Contains("\"size\""));
}

}  // namespace octet::test_graph

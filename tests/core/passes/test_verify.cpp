// The verifier names the node and what is wrong with it.
#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "core/passes/pass.h"
#include "core/passes/verify.h"
#include "core/text/text.h"

namespace octet::test_verify {
using Catch::Contains;

namespace {

Graph two_ops() {
  return parse_graph("graph(%x: f32[2]): %a = aten.relu(%x) %b = aten.sigmoid(%a) return (%b)");
}

}  // namespace

TEST_CASE("verify: a sound graph passes", "[core][verify]") { CHECK_NOTHROW(verify(two_ops())); }

TEST_CASE("verify: a use before the definition is found", "[core][verify]") {
  Graph graph = two_ops();
  graph.move_before(*graph.find_node("b"), graph.find_node("a"));
  CHECK_THROWS_WITH(verify(graph),
                    Contains("verify: %b (aten.sigmoid.default): uses %a before its definition"));
}

TEST_CASE("verify: a value of another graph is found", "[core][verify]") {
  Graph graph = two_ops(), other = two_ops();
  graph.find_node("b")->set_argument("self", other.find_value("a"));
  CHECK_THROWS_WITH(verify(graph), Contains("%b (aten.sigmoid.default)"));
  graph.find_node("b")->set_argument("self", graph.find_value("a"));
}

TEST_CASE("verify: arguments are checked against the schema", "[core][verify]") {
  Graph graph = two_ops();
  graph.find_node("a")->set_argument("bogus", 1);
  CHECK_THROWS_WITH(verify(graph),
                    Contains("%a (aten.relu.default): the op has no argument \"bogus\""));
  graph.find_node("a")->erase_argument("bogus");
  graph.find_node("a")->erase_argument("self");
  CHECK_THROWS_WITH(verify(graph), Contains("argument \"self\" is missing, want a Tensor"));
  graph.find_node("a")->set_argument("self", None{});
  CHECK_THROWS_WITH(verify(graph), Contains("argument \"self\" is None"));
}

TEST_CASE("verify: too many results are found", "[core][verify]") {
  Graph graph = two_ops();
  graph.add_result(*graph.find_node("a"), "extra", std::nullopt);
  CHECK_THROWS_WITH(verify(graph), Contains("has 2 results, want at most 1"));
}

TEST_CASE("verify: constants must exist and agree with their type", "[core][verify]") {
  Graph graph = parse_graph(R"(graph(%w = param "fc.weight": f32[2,3]): return (%w))");
  graph.constants.at("fc.weight").tensor = Tensor::zeros(DType::kInt8, {2, 3});
  CHECK_THROWS_WITH(
      verify(graph),
      Contains("\"fc.weight\" does not agree with its type, got i8[2, 3], want f32[2, 3]"));
  graph.constants.clear();
  CHECK_THROWS_WITH(verify(graph), Contains("\"fc.weight\" is missing"));
}

TEST_CASE("verify: subgraphs are checked", "[core][verify]") {
  Graph graph = parse_graph(
      R"(graph(%x: f32[2]): [%y] = higher_order.my_map(graph "body" (%a: f32[2]): %r = aten.relu(%a) %s = aten.relu(%r) return (%s), [%x]) return (%y))");
  CHECK_NOTHROW(verify(graph));
  Graph& body = *graph.nodes().front()->arguments()[0].value.find<Subgraph>()->graph;
  body.move_before(*body.find_node("s"), body.find_node("r"));
  CHECK_THROWS_WITH(verify(graph), Contains("%s (aten.relu.default): uses %r before"));
}

TEST_CASE("run_passes: logs changes, nodes and time, and sums up the changes", "[core][pass]") {
  Graph graph = two_ops();
  std::vector<std::string> lines;
  const auto drop_b = [&] {
    Node* b = graph.find_node("b");
    if (b == nullptr) return 0;
    graph.replace_uses(b->output(), graph.find_value("a"));
    graph.erase(*b);
    return 1;
  };
  const int changes =
      run_passes("test", graph, [&](const std::string& line) { lines.push_back(line); },
                 {
                     {"drop_b", drop_b},
                     {"drop_b", drop_b},
                     {"left_out", drop_b, false},
                 });
  CHECK(changes == 1);
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0],
             Catch::StartsWith("drop_b: 1 change, 2 -> 1 nodes (") && Catch::EndsWith(" ms)"));
  CHECK_THAT(lines[1], Catch::StartsWith("drop_b: (unchanged) ("));
}

TEST_CASE("run_passes: names the pass that broke the graph", "[core][pass]") {
  Graph graph = two_ops();
  const auto break_order = [&] { graph.move_before(*graph.find_node("b"), graph.find_node("a")); };
  const LogSink log = [](const std::string&) {};
  const auto run = [&] { run_passes("test", graph, log, {{"break_order", break_order}}); };
  CHECK_THROWS_WITH(run(), Contains("after break_order") && Contains("%b"));
}

}  // namespace octet::test_verify

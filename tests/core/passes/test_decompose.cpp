// Ops are replaced by what LibTorch's kernels for them call.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "core/passes/rewrites.h"
#include "core/passes/verify.h"
#include "support/graph_matchers.h"

namespace octet::test_decompose {
namespace {

using test::PrintsAs;

// Ops whose targets begin with one of the names.
std::function<bool(const std::string&)> knows(std::vector<std::string> names) {
  return [names](const std::string& target) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return target.starts_with(name); });
  };
}

}  // namespace

TEST_CASE("decompose: a composite op becomes its parts", "[core][decompose]") {
  Graph graph = parse_graph(R"(graph(%x: f32[3,4]):
    %y: f32[3,3] = aten.diff.default(%x)
    return (%y))");
  const auto known = knows({"aten.narrow.", "aten.sub."});
  CHECK(decompose(graph, known) == 1);
  verify(graph);
  CHECK_THAT(graph, PrintsAs(R"(graph(%x: f32[3,4]):
    %y_narrow: f32[3,3]{4,1} = aten.narrow.default(%x, -1, 0, 3)
    %y_narrow_1: f32[3,3]{4,1} = aten.narrow.default(%x, -1, 1, 3)
    %y_sub: f32[3,3] = aten.sub.Tensor(%y_narrow_1, %y_narrow, alpha=1)
    return (%y_sub))"));
  CHECK(decompose(graph, known) == 0);
}

TEST_CASE("decompose: lists of results, and results that are inputs", "[core][decompose]") {
  Graph graph = parse_graph(R"(graph(%x: f32[4,6]):
    [%a: f32[4,3], %b: f32[4,3]] = aten.hsplit.int(%x, 2)
    %c: f32[4,3] = aten.positive.default(%a)
    return (%b, %c))");
  CHECK(decompose(graph, knows({"aten.tensor_split.sections"})) == 2);
  verify(graph);
  CHECK(graph.node_count() == 1);
  CHECK(graph.nodes()[0]->target() == "aten.tensor_split.sections");
}

TEST_CASE("decompose: a trace that meets an unknown op changes nothing", "[core][decompose]") {
  Graph graph = parse_graph(R"(graph(%x: f32[3,4]):
    %y: f32[3,3] = aten.diff.default(%x)
    %z: f32[3,3] = aten.cholesky.default(%y)
    return (%z))");
  CHECK(decompose(graph, knows({"aten.narrow."})) == 0);
  CHECK(graph.node_count() == 2);
}

TEST_CASE("decompose: open sizes and complex numbers stay", "[core][decompose]") {
  Graph graph = parse_graph(R"(graph(%x: c64[3,4]):
    %y: c64[3,3] = aten.diff.default(%x)
    return (%y))");
  CHECK(decompose(graph, knows({"aten."})) == 0);
}

TEST_CASE("decompose: bodies of control flow are decomposed too", "[core][decompose]") {
  Graph graph = parse_graph(R"(graph(%p: b8[], %x: f32[2,3]):
    [%y: f32[2,3]] = higher_order.cond(%p, graph "yes" (%a: f32[2,3]): %b: f32[2,3] = aten.fliplr.default(%a) return (%b), graph "no" (%c: f32[2,3]): %d: f32[2,3] = aten.relu.default(%c) return (%d), [%x]) as call
    return (%y))");
  CHECK(decompose(graph, knows({"aten.relu", "aten.flip."})) == 1);
  verify(graph);
}

}  // namespace octet::test_decompose

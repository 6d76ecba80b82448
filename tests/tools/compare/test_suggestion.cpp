// The suggestions of `octet compare` and the trials of `octet tune` name the ops of the exported
// program.
#include <catch2/catch.hpp>

#include "core/graph/origin.h"
#include "core/text/text.h"
#include "tools/cli/compare/suggestion.h"

namespace octet::test_suggestion {
namespace {

using Json = nlohmann::ordered_json;

// A layer norm that smoothing has split: `second` and `first` come from one op of the module.
Graph split_norm() {
  Graph graph = parse_graph(R"(graph(%x: f32[2,4], %g = param "g": f32[4]):
  %first: f32[2,4] = aten.layer_norm.default(%x, [4], %g)
  %second: f32[2,4] = aten.layer_norm.default(%x, [4], %g)
  %a: f32[2,4] = aten.relu.default(%first)
  %b: f32[2,4] = aten.relu.default(%second)
  %y: f32[2,4] = aten.add.Tensor(%a, %b)
  return (%y))");
  for (const char* name : {"first", "second"})
    graph.find_node(name)->metadata["nn_module_stack"] = "norm,norm,torch.nn.LayerNorm";
  set_origins(graph);
  graph.find_node("second")->metadata[kOriginKey] =
      graph.find_node("first")->metadata.at(kOriginKey);
  return graph;
}

Json suggestion(const Graph& graph, const char* name) {
  return suggest(graph, *graph.find_value(name), Cause::kWeights);
}

}  // namespace

TEST_CASE("an op that was split is one of the exported program", "[compare][suggestion]") {
  const Graph graph = split_norm();
  const Json whole = {{"module_name", {{"norm", nullptr}}}};
  CHECK(suggestion(graph, "first") == whole);
  CHECK(suggestion(graph, "second") == whole);
}

TEST_CASE("several ops of a module are told apart by their call", "[compare][suggestion]") {
  const Graph graph = split_norm();
  CHECK(suggestion(graph, "b").dump() == R"({"call_index":{"":{"aten.relu.default":{"1":null}}}})");
}

TEST_CASE("calls that settings cannot change count", "[compare][suggestion]") {
  Graph graph = parse_graph(
      R"(graph(%t = param "t": f32[6,8], %w = buffer "w": u8[6,8], %s = buffer "s": f32[6], %z = buffer "z": f32[6], %i: i64[2]):
  %n: i64[2] = aten.add.Tensor(%i, %i)
  %plain: f32[2,8] = aten.embedding.default(%t, %n)
  %dw: f32[6,8] = quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, 0, 0, 255, u8)
  %e: f32[2,8] = aten.embedding.default(%dw, %n)
  %y: f32[2,8] = aten.add.Tensor(%plain, %e)
  return (%y))");
  set_origins(graph);
  CHECK(suggestion(graph, "e").dump() ==
        R"({"call_index":{"":{"aten.embedding.default":{"1":null}}}})");
  CHECK(suggestion(graph, "y").dump() == R"({"call_index":{"":{"aten.add.Tensor":{"1":null}}}})");
}

TEST_CASE("what the exported program does not have cannot be set", "[compare][suggestion]") {
  Graph graph = split_norm();
  forget_origin(*graph.find_node("a"));
  CHECK(suggestion(graph, "a").is_null());
  CHECK(suggestion(graph, "b").dump() == R"({"call_index":{"":{"aten.relu.default":{"0":null}}}})");
}

}  // namespace octet::test_suggestion

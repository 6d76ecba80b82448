// What convert computes ahead: quantized constants and the ops before them, and nothing else.
#include "annotate/flow_helpers.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "support/graph_matchers.h"
#include "support/tensor_matchers.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_constants {
namespace {

using Json = nlohmann::ordered_json;
using test::act_spec;
using test::count_of;
using test::weight_spec;

const Json kWeight =
    Json::array({{{"target", "aten.linear.default"}, {"inputs", {{"1", weight_spec()}}}}});

Graph filled(const std::string& text) {
  Graph graph = parse_graph(text);
  test::fill_floats(graph);
  return graph;
}

at::Tensor output_of(const Graph& graph) {
  return Interpreter(graph).run(test::random_inputs(graph)).at(0).toTensor();
}

}  // namespace

TEST_CASE("constants: a quantized weight drops the float one", "[annotate][constants]") {
  const std::string text = R"(graph(%w = param "w": f32[4,3], %b = param "b": f32[4], %x: f32[2,3]):
    %y: f32[2,4] = aten.linear.default(%x, %w, %b) return (%y))";
  const Graph graph = test::quantize(filled(text), kWeight);
  CHECK_FALSE(graph.constants.contains("w"));
  CHECK(graph.constants.at("_frozen_param0").tensor.dtype() == DType::kInt8);
  CHECK(count_of(graph, "quantized_decomposed.quantize*") == 0);
  ConvertOptions options;
  options.fold_quantize = false;
  const Graph open = test::quantize(filled(text), kWeight, options);
  CHECK(open.constants.contains("w"));
  CHECK(count_of(open, "quantized_decomposed.quantize*") == 1);
  CHECK_THAT(output_of(graph), test::BitEqual(output_of(open)));
}

TEST_CASE("constants: all ops between a constant and its quantize are computed ahead",
          "[annotate][constants]") {
  const std::string text = R"(graph(%w = param "w": f32[3,4], %x: f32[2,3]):
    %t: f32[4,3] = aten.transpose.int(%w, 0, 1) %n: f32[4,3] = aten.mul.Tensor(%t, 2.0)
    %y: f32[2,4] = aten.linear.default(%x, %n) return (%y))";
  const Graph graph = test::quantize(filled(text), kWeight);
  CHECK(test::targets(graph) == "dequantize_per_tensor.default linear.default");
  CHECK(graph.constants.size() == 1);
}

TEST_CASE("constants: weights that depend on ops with several results are computed ahead",
          "[annotate][constants]") {
  // attention stores the three projections of query, key and value as one matrix
  const std::string parts = GENERATE(
      "[%a: f32[4,3], %b: f32[4,3]] = aten.chunk.default(%w, 2) ",
      "[%a: f32[4,3], %b: f32[4,3]] = aten.split.Tensor(%w, 4) ",
      "[%a: f32[4,3], %b: f32[4,3]] = aten.split_with_sizes.default(%w, [4, 4]) ",
      "%v: f32[2,4,3] = aten.view.default(%w, [2, 4, 3]) "
      "[%a: f32[4,3], %b: f32[4,3]] = aten.unbind.int(%v) ",
      "%v: f32[2,4,3] = aten.view.default(%w, [2, 4, 3]) "
      "[%c: f32[1,4,3], %d: f32[1,4,3]] = aten.chunk.default(%v, 2) "
      "%a: f32[4,3] = aten.squeeze.dim(%c, 0) %b: f32[4,3], %i: i64[4,3] = aten.max.dim(%v, 0) ");
  CAPTURE(parts);
  const std::string text = R"(graph(%w = param "w": f32[8,3], %x: f32[2,3]): )" + parts + R"(
    %y: f32[2,4] = aten.linear.default(%x, %a) %z: f32[2,4] = aten.linear.default(%x, %b)
    return (%y, %z))";
  const Graph graph = test::quantize(filled(text), kWeight);
  CHECK(test::targets(graph) ==
        "dequantize_per_tensor.default dequantize_per_tensor.default linear.default "
        "linear.default");
  CHECK(graph.constants.size() == 2);
  ConvertOptions options;
  options.fold_quantize = false;
  CHECK_THAT(output_of(graph),
             test::BitEqual(output_of(test::quantize(filled(text), kWeight, options))));
}

TEST_CASE("constants: a copy of a constant that an op writes to is not computed ahead",
          "[annotate][constants]") {
  const std::string text = R"(graph(%w = param "w": f32[4,3], %x: f32[2,3]):
    %c: f32[4,3] = aten.clone.default(%w) %r: f32[3] = aten.select.int(%c, 0, 1)
    %m: f32[3] = aten.mul_.Tensor(%r, 9.0) %y: f32[2,4] = aten.linear.default(%x, %c)
    return (%y))";
  const Graph graph = test::quantize(filled(text), kWeight);
  CHECK(count_of(graph, "quantized_decomposed.quantize*") == 1);
  CHECK_THAT(output_of(graph), test::AllClose(output_of(filled(text)), 0.5));
}

TEST_CASE("constants: constants that are not quantized stay unchanged", "[annotate][constants]") {
  const std::string text =
      R"(graph(%w = param "w": f32[4,3], %c = buffer "c": f32[4,2], %x: f32[2,3]):
    %y: f32[2,4] = aten.linear.default(%x, %w)
    %t: f32[2,4] = aten.t.default(%c) %s: f32[2,4] = aten.sub.Tensor(%y, %t) return (%s))";
  const Graph graph = test::quantize(filled(text), kWeight);
  CHECK(count_of(graph, "aten.t.default") == 1);
  CHECK(graph.constants.contains("c"));
  CHECK(graph.constants.size() == 2);
}

TEST_CASE("constants: a weight that others read in float is kept for them",
          "[annotate][constants]") {
  const Graph graph = test::quantize(filled(R"(graph(%w = param "w": f32[4,3], %x: f32[2,3]):
    %y: f32[2,4] = aten.linear.default(%x, %w) %s: f32[] = aten.sum.default(%w) %z: f32[2,4] = aten.mul.Tensor(%y, %s) return (%z))"),
                                     kWeight);
  CHECK(graph.constants.contains("w"));
  CHECK(graph.constants.contains("_frozen_param0"));
}

TEST_CASE("constants: the module and stack trace of a folded weight's dequantize stay",
          "[annotate][constants]") {
  Graph graph = filled(
      R"(graph(%w = param "w": f32[4,3], %x: f32[2,3]): %y: f32[2,4] = aten.linear.default(%x, %w) return (%y))");
  graph.find_node("y")->metadata = {{"nn_module_stack", "fc"}, {"stack_trace", "here"}};
  const Graph converted = test::quantize(std::move(graph), kWeight);
  const Node* dequantize = converted.nodes_of("quantized_decomposed.dequantize_per_tensor").front();
  CHECK(dequantize->metadata.at("nn_module_stack") == "fc");
  CHECK(dequantize->metadata.at("stack_trace") == "here");
}

TEST_CASE("constants: random numbers and made tensors are not computed ahead",
          "[annotate][constants]") {
  const Graph graph = test::quantize(filled(R"(graph(%w = param "w": f32[4,3], %x: f32[2,3]):
    %r: f32[4,3] = aten.rand_like.default(%w) %y: f32[2,4] = aten.linear.default(%x, %r) return (%y))"),
                                     kWeight);
  CHECK(count_of(graph, "quantized_decomposed.quantize*") == 1);
}

TEST_CASE("constants: weights as float16 are stored so", "[annotate][constants][float16]") {
  Json spec = weight_spec();
  for (const char* key : {"qscheme", "quant_min", "quant_max"}) spec.erase(key);
  spec["dtype"] = "float16";
  spec["observer"] = "PlaceholderObserver";
  const std::string text =
      R"(graph(%w = param "w": f32[4,3], %x: f32[2,3]): %y: f32[2,4] = aten.linear.default(%x, %w) return (%y))";
  const Graph graph = test::quantize(
      filled(text), Json::array({{{"target", "aten.linear.default"}, {"inputs", {{"1", spec}}}}}));
  CHECK_THAT(graph, test::PrintsAsUntyped(R"(graph(%b__frozen_param0 = buffer "_frozen_param0", %x):
    %convert_element_type_no_fuse_1 = quantized_decomposed.convert_element_type.no_fuse(%b__frozen_param0, f32)
    %y = aten.linear.default(%x, %convert_element_type_no_fuse_1) return (%y))"));
  Graph original = filled(text);
  CHECK_THAT(output_of(graph), test::AllClose(output_of(original), 0.01));
}

}  // namespace octet::test_constants

// Prepare, calibrate and convert on graphs in text.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/flow_helpers.h"
#include "annotate/graph/float_ops.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_flow {
namespace {

using Json = nlohmann::ordered_json;
using test::RuleQuantizer;

const Json kAct = test::act_spec();
const Json kWeight = test::per_channel_weight_spec();
const Json kDynamic = test::dynamic_spec();
const Json kLinear = test::linear_rules();

constexpr const char* kLinearText = R"(
graph(%w = param "lin.weight": f32[2,3], %b = param "lin.bias": f32[2], %x: f32[4,3]):
  %y: f32[4,2] = aten.linear.default(%x, %w, %b)
  %z: f32[4,2] = aten.relu.default(%y)
  return (%z))";

Graph linear_graph() {
  Graph graph = parse_graph(kLinearText);
  float* weight = graph.constants.at("lin.weight").tensor.data<float>();
  for (int i = 0; i < 6; ++i) weight[i] = static_cast<float>(i - 2);
  return graph;
}

std::vector<c10::IValue> batch(double value) { return {at::full({4, 3}, value, at::kFloat)}; }

ObservedGraph prepare(Graph graph, const Json& rules) {
  RuleQuantizer quantizer(rules);
  Report report;
  return prepare_pt2e(std::move(graph), quantizer, report);
}

Graph convert(ObservedGraph observed, ConvertOptions options = {}) {
  Report report;
  return convert_pt2e(std::move(observed), options, report);
}

// The ops in order without their namespace, separated by blanks.
std::string targets(const Graph& graph) {
  std::vector<std::string> result;
  for (const Node* node : graph.nodes())
    result.push_back(node->target().substr(node->target().find('.') + 1));
  return fmt::format("{}", fmt::join(result, " "));
}

TEST_CASE("prepare: inputs and output of a linear get observer nodes", "[annotate][prepare]") {
  const ObservedGraph observed = prepare(linear_graph(), kLinear);
  CHECK(targets(observed.graph) ==
        "observe.default observe.default linear.default observe.default relu.default");
  const std::vector<Node*> points = observer_nodes(observed.graph);
  REQUIRE(points.size() == 3);
  CHECK(observed_value(*points[0])->name() == "w");
  CHECK(observed_value(*points[1])->name() == "x");
  CHECK(observed_value(*points[2])->name() == "y");
  CHECK(observed.graph.find_node("z")->find_input("self")->producer() == points[2]);
}

TEST_CASE("prepare: one point serves two consumers with the same group", "[annotate][prepare]") {
  const ObservedGraph observed =
      prepare(parse_graph(R"(
    graph(%x: f32[2,2]):
      %a: f32[2,2] = aten.relu.default(%x)
      %b: f32[2,2] = aten.relu.default(%x)
      %c: f32[2,2] = aten.sigmoid.default(%x)
      return (%a, %b, %c))"),
              Json::array({{{"target", "aten.relu.default"}, {"inputs", {{"0", kAct}}}}}));
  const std::vector<Node*> points = observer_nodes(observed.graph);
  REQUIRE(points.size() == 1);
  CHECK(points[0]->output()->users().size() == 2);
  CHECK(observed.graph.find_node("c")->find_input("self")->name() == "x");
}

TEST_CASE("prepare: an edge with another dtype than its producer's output follows that observer",
          "[annotate][prepare]") {
  Json other = kAct;
  other["dtype"] = "uint8";
  other["quant_min"] = 0;
  other["quant_max"] = 255;
  const ObservedGraph observed =
      prepare(parse_graph(R"(
    graph(%x: f32[2,2]):
      %a: f32[2,2] = aten.relu.default(%x)
      %b: f32[2,2] = aten.sigmoid.default(%a)
      return (%b))"),
              Json::array({{{"target", "aten.relu.default"}, {"output", kAct}},
                           {{"target", "aten.sigmoid.default"}, {"inputs", {{"0", other}}}}}));
  const std::vector<Node*> points = observer_nodes(observed.graph);
  REQUIRE(points.size() == 2);
  CHECK(points[1]->find_input("input") == points[0]->output());
  CHECK(observed_value(*points[1])->name() == "a");
}

TEST_CASE("prepare: a tensor that is not floating point is reported and left alone",
          "[annotate][prepare]") {
  RuleQuantizer quantizer(
      Json::array({{{"target", "aten.add.Tensor"}, {"inputs", {{"0", kAct}}}, {"output", kAct}}}));
  Report report;
  const ObservedGraph observed = prepare_pt2e(parse_graph(R"(
    graph(%x: i64[2]):
      %y: i64[2] = aten.add.Tensor(%x, %x)
      return (%y))"),
                                              quantizer, report);
  CHECK(observer_nodes(observed.graph).empty());
  REQUIRE(report.entries().size() == 2);
  CHECK(report.entries()[0].reason ==
        "%x is not observed: it is int64, want a floating-point tensor");
}

TEST_CASE(
    "calibrate: no batches, NaN in the data and NaN inside the graph are errors that name the "
    "place",
    "[annotate][calibrate]") {
  ObservedGraph observed = prepare(linear_graph(), kLinear);
  CHECK_THROWS_WITH(calibrate(observed, std::vector<std::vector<c10::IValue>>{}),
                    "calibrate: data: no batches, got 0, want at least 1");
  CHECK_THROWS_WITH(
      calibrate(observed, {batch(1), batch(NAN)}),
      Catch::Contains("calibrate: batch 1 input 0 %x: the data holds NaN or infinities"));
  CHECK_THROWS_WITH(calibrate(observed, {batch(INFINITY)}), Catch::Contains("batch 0 input 0"));
  CHECK_THROWS_WITH(calibrate(observed, std::vector<std::vector<c10::IValue>>(1)),
                    Catch::Contains("wrong number of inputs, got 0, want 1"));
  ObservedGraph logs = prepare(parse_graph(R"(
    graph(%x: f32[4,3]):
      %y: f32[4,3] = aten.log.default(%x)
      return (%y))"),
                               Json::array({{{"target", "aten.log.default"}, {"output", kAct}}}));
  CHECK_THROWS_WITH(calibrate(logs, {batch(1), batch(-1)}),
                    Catch::Contains("calibrate: batch 1 %y: aten.log.default returned NaN"));
}

TEST_CASE("calibrate: batches are asked for one by one and progress counts them",
          "[annotate][calibrate]") {
  ObservedGraph observed = prepare(linear_graph(), kLinear);
  size_t asked = 0;
  std::vector<size_t> progress;
  const size_t batches = calibrate(
      observed,
      [&]() -> std::optional<std::vector<c10::IValue>> {
        CHECK(progress.size() == asked);
        if (asked == 3) return std::nullopt;
        return batch(static_cast<double>(++asked));
      },
      [&](size_t done) { progress.push_back(done); });
  CHECK(batches == 3);
  const std::vector<size_t> want = {1, 2, 3};
  CHECK(progress == want);
}

TEST_CASE("convert: static linear becomes q/dq with an int8 weight, and the float weight is gone",
          "[annotate][convert]") {
  ObservedGraph observed = prepare(linear_graph(), kLinear);
  calibrate(observed, {batch(-1), batch(3)});
  const Graph graph = convert(std::move(observed));
  CHECK(targets(graph) ==
        "dequantize_per_channel.default quantize_per_tensor.default dequantize_per_tensor.default "
        "linear.default quantize_per_tensor.default "
        "dequantize_per_tensor.default relu.default");
  CHECK_FALSE(graph.constants.contains("lin.weight"));
  CHECK(graph.constants.contains("lin.bias"));
  const Tensor& weight = graph.constants.at("_frozen_param0").tensor;
  CHECK(weight.dtype() == DType::kInt8);
  const std::vector<int> want = {-127, -64, 0, 42, 85, 127};
  CHECK(std::vector<int>(weight.data<int8_t>(), weight.data<int8_t>() + 6) == want);
  CHECK(graph.constants.at("_scale_0").tensor.data<float>()[0] == 2.0f / 127.0f);
  const Node* quantize = graph.nodes()[1];
  CHECK(quantize->float_or("scale", 0) == static_cast<double>(4.0f / 255.0f));
  CHECK(quantize->int_or("zero_point", 0) == -64);
}

TEST_CASE("convert: without folding the float weight stays", "[annotate][convert]") {
  ObservedGraph observed = prepare(linear_graph(), kLinear);
  calibrate(observed, {batch(1)});
  ConvertOptions options;
  options.fold_quantize = false;
  const Graph graph = convert(std::move(observed), options);
  CHECK(graph.constants.contains("lin.weight"));
  CHECK(graph.nodes_of("quantized_decomposed.quantize_per_channel.default").size() == 1);
}

TEST_CASE("convert: a constant is folded through a transpose", "[annotate][convert]") {
  ObservedGraph observed = prepare(parse_graph(R"(
    graph(%w = param "w": f32[3,2], %x: f32[4,3]):
      %t: f32[2,3] = aten.transpose.int(%w, 0, 1)
      %y: f32[4,2] = aten.linear.default(%x, %t)
      return (%y))"),
                                   kLinear);
  observed.graph.constants.at("w").tensor.data<float>()[0] = 1.0f;
  calibrate(observed, {batch(1)});
  const Graph graph = convert(std::move(observed));
  CHECK(graph.nodes_of("aten.transpose").empty());
  CHECK_FALSE(graph.constants.contains("w"));
  const std::vector<int64_t> want = {2, 3};
  CHECK(graph.constants.at("_frozen_param0").tensor.shape() == want);
}

TEST_CASE("convert: each annotated consumer gets a separate dequantize", "[annotate][convert]") {
  ObservedGraph observed =
      prepare(parse_graph(R"(
    graph(%x: f32[4,3]):
      %a: f32[4,3] = aten.relu.default(%x)
      %b: f32[4,3] = aten.relu.default(%x)
      %c: f32[4,3] = aten.sigmoid.default(%x)
      return (%a, %b, %c))"),
              Json::array({{{"target", "aten.relu.default"}, {"inputs", {{"0", kAct}}}}}));
  calibrate(observed, {batch(1)});
  const Graph graph = convert(std::move(observed));
  CHECK(graph.nodes_of("quantized_decomposed.quantize_per_tensor.default").size() == 1);
  CHECK(graph.nodes_of("quantized_decomposed.dequantize_per_tensor.default").size() == 2);
  CHECK(graph.find_node("c")->find_input("self")->name() == "x");
}

TEST_CASE("convert: dynamic quantization needs no data and chooses scales at run time",
          "[annotate][convert]") {
  ObservedGraph observed =
      prepare(linear_graph(), Json::array({{{"target", "aten.linear.default"},
                                            {"inputs", {{"0", kDynamic}, {"1", kWeight}}}}}));
  CHECK_FALSE(needs_calibration(observed));
  observe_constants(observed);
  const Graph graph = convert(std::move(observed));
  CHECK(targets(graph) ==
        "dequantize_per_channel.default choose_qparams.tensor quantize_per_tensor.tensor "
        "dequantize_per_tensor.tensor linear.default relu.default");
  const at::Tensor result = Interpreter(graph).run(batch(1)).at(0).toTensor();
  CHECK(result[0][1].item<double>() == Approx(6.0).epsilon(0.02));
}

TEST_CASE("convert: an observer without data is an error, and scale 1 with a note in compat mode",
          "[annotate][convert]") {
  ObservedGraph observed = prepare(linear_graph(), kLinear);
  CHECK(needs_calibration(observed));
  CHECK_THROWS_WITH(
      convert(prepare(linear_graph(), kLinear)),
      Catch::Contains(
          "convert: %w (observer group 1): the per_channel_min_max observer saw no data"));
  observe_constants(observed);
  Report report;
  const Graph graph = convert_pt2e(std::move(observed), {.compat = Compat::kTorchao}, report);
  CHECK(report.notes().size() == 2);
  CHECK(graph.nodes()[1]->float_or("scale", 0) == 1.0);
}

TEST_CASE("convert: dynamic int16 is refused", "[annotate][convert]") {
  Json spec = kDynamic;
  spec["dtype"] = "int16";
  ObservedGraph observed =
      prepare(linear_graph(),
              Json::array({{{"target", "aten.linear.default"}, {"inputs", {{"0", spec}}}}}));
  CHECK_THROWS_WITH(
      convert(std::move(observed)),
      "convert: %x: dynamic quantization to int16, want int8 or uint8; change the spec's dtype");
}

TEST_CASE("convert: literals of the float graph are not touched", "[annotate][convert]") {
  ObservedGraph observed =
      prepare(parse_graph(R"(
    graph(%w = param "w": f32[3], %x: f32[4,3]):
      %y: f32[4,3] = aten.layer_norm.default(%x, [3], %w, None, 0.0123)
      %z: f32[4,3] = aten.relu.default(%y)
      return (%z))"),
              Json::array({{{"target", "aten.relu.default"}, {"inputs", {{"0", kAct}}}}}));
  calibrate(observed, {batch(1)});
  CHECK(convert(std::move(observed)).find_node("y")->float_or("eps", 0) == 0.0123);
}

TEST_CASE("coverage: a linear that stayed float is reported once", "[annotate][coverage]") {
  ObservedGraph observed = prepare(
      linear_graph(), Json::array({{{"target", "aten.relu.default"}, {"inputs", {{"0", kAct}}}}}));
  calibrate(observed, {batch(1)});
  Report report;
  const Graph graph = convert_pt2e(std::move(observed), {}, report);
  REQUIRE(report.entries().size() == 1);
  CHECK(report.entries()[0].node == "y");
  CHECK(report_float_ops(graph, {}, report) == 0);
  CHECK(report.entries().size() == 1);
}

}  // namespace
}  // namespace octet::test_flow

// Accuracy passes that read calibration data: their results where the answer is known, what they
// leave unchanged, and bad input.
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <nlohmann/json.hpp>

#include "annotate/accuracy/accuracy_passes.h"
#include "annotate/accuracy/bias_correction.h"
#include "annotate/accuracy/rounding_cases.h"
#include "annotate/accuracy/smooth.h"
#include "annotate/accuracy/stepwise_run.h"
#include "annotate/accuracy/tune_ranges.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/flow_helpers.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "support/error_message.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_accuracy_passes {
namespace {

using Json = nlohmann::ordered_json;
using test::Batches;
using test::prepare;
using test::random_batches;
using test::run_float;

at::Tensor run_quantized(ObservedGraph observed, const std::vector<c10::IValue>& batch) {
  Report report;
  const Graph graph = convert_pt2e(std::move(observed), {}, report);
  return Interpreter(graph).run(batch).at(0).toTensor();
}

double sqnr(const at::Tensor& expected, const at::Tensor& actual) {
  return 10 * std::log10(expected.square().sum().item<double>() /
                         (actual - expected).square().sum().item<double>());
}

template <typename Call>
std::string message_of(const Call& call) {
  return test::error_message([&] { call(); });
}

constexpr const char* kTwoLinears = R"(
  graph(%w = param "a.weight": f32[8,6], %b = param "a.bias": f32[8], %v = param "c.weight": f32[5,8], %x: f32[32,6]):
    %y: f32[32,8] = aten.linear.default(%x, %w, %b)
    %z: f32[32,8] = aten.relu.default(%y)
    %u: f32[32,5] = aten.linear.default(%z, %v)
    return (%u))";

// Channel 0 between the layers is 64 times as large as the others, and its weights as much smaller.
Graph uneven_linears(std::string_view activation = "aten.relu.default(%y)") {
  std::string text = kTwoLinears;
  text.replace(text.find("aten.relu.default(%y)"), std::string("aten.relu.default(%y)").size(),
               activation);
  Graph graph = parse_graph(text);
  test::fill_floats(graph);
  to_aten(graph.constants.at("a.weight").tensor)[0].mul_(64);
  to_aten(graph.constants.at("a.bias").tensor)[0].mul_(64);
  to_aten(graph.constants.at("c.weight").tensor).select(1, 0).div_(64);
  return graph;
}

TEST_CASE("smoothing: a channel far larger than the others no longer sets the scale of all",
          "[annotate][smooth]") {
  ObservedGraph plain = prepare(uneven_linears(), test::linear_rules());
  ObservedGraph smoothed = prepare(uneven_linears(), test::linear_rules());
  const Batches data = random_batches(plain.graph, 5, 4);
  const std::vector<c10::IValue> unseen = test::random_inputs(plain.graph, 77);
  Report report;
  const std::vector<SmoothedSpace> spaces =
      smooth_activations(smoothed, test::source_of(data), report);
  REQUIRE(spaces.size() == 1);
  CHECK(spaces[0].maker == "y");
  CHECK(spaces[0].channels == 8);
  CHECK(spaces[0].gain_db > 3);
  CHECK(report.notes() == std::vector<std::string>{"smooth: 1 of 1 sets of channels scaled"});
  const at::Tensor expected = run_float(plain, unseen);
  CHECK(at::equal(run_float(smoothed, unseen), expected));
  calibrate(plain, data);
  calibrate(smoothed, data);
  CHECK(sqnr(expected, run_quantized(std::move(smoothed), unseen)) >
        sqnr(expected, run_quantized(std::move(plain), unseen)) + 3);
}

TEST_CASE("smoothing leaves channels before a clamp alone", "[annotate][smooth]") {
  ObservedGraph observed =
      prepare(uneven_linears("aten.hardtanh.default(%y, 0.0, 100.0)"), test::linear_rules());
  Report report;
  CHECK(smooth_activations(observed, test::source_of(random_batches(observed.graph, 5, 4)), report)
            .empty());
}

TEST_CASE("smoothing: a set of channels that gains nothing is unchanged", "[annotate][smooth]") {
  Graph graph = parse_graph(kTwoLinears);
  for (auto& [fqn, constant] : graph.constants) to_aten(constant.tensor).fill_(1.0);
  ObservedGraph observed = prepare(std::move(graph), test::linear_rules());
  const Batches data = random_batches(observed.graph, 5, 2);
  Report report;
  CHECK(smooth_activations(observed, test::source_of(data), report).empty());
}

TEST_CASE("smoothing refuses options and data that make no sense", "[annotate][smooth][error]") {
  ObservedGraph observed = prepare(uneven_linears(), test::linear_rules());
  const Batches none;
  Batches broken = random_batches(observed.graph, 5, 1);
  broken[0][0].toTensor()[0][0] = std::nan("");
  Report report;
  CHECK(message_of([&] {
          smooth_activations(observed, test::source_of(none), report, {.strengths = {1.5}});
        }) == "smooth: strengths: a migration strength lies within 0 .. 1, got 1.5");
  CHECK(message_of([&] {
          smooth_activations(observed, test::source_of(none), report, {.strengths = {}});
        }) == "smooth: strengths: none, got 0, want at least 1");
  CHECK(message_of([&] { smooth_activations(observed, test::source_of(none), report); }) ==
        "smooth: data: no batches, got 0, want at least 1");
  CHECK(message_of([&] { smooth_activations(observed, test::source_of(broken), report); }) ==
        "smooth: %z: got NaN or infinities for the calibration data, want numbers; clean the data "
        "or check the model");
}

// The first input column has large values that the weight ignores.
ObservedGraph with_ignored_outliers(const Json& rules) {
  Graph graph = parse_graph(R"(
    graph(%w = param "a.weight": f32[4,3], %b = param "a.bias": f32[4], %x: f32[16,3]):
      %y: f32[16,4] = aten.linear.default(%x, %w, %b)
      return (%y))");
  test::fill_floats(graph);
  to_aten(graph.constants.at("a.weight").tensor).select(1, 0).zero_();
  return prepare(std::move(graph), rules);
}

Batches outlier_batches(const Graph& graph) {
  Batches batches = random_batches(graph, 5, 2);
  for (std::vector<c10::IValue>& batch : batches) batch[0].toTensor().select(1, 0).mul_(10);
  return batches;
}

const Json kDerivedBias = Json::parse(
    R"({"kind": "derived", "from": [["$arg0", "$self"], ["$arg1", "$self"]], "fn": "product_of_scales", "dtype": "int32",
  "quant_min": -2147483647, "quant_max": 2147483646, "qscheme": "per_tensor_symmetric"})");

Json rules_with_bias() {
  return Json::array(
      {{{"target", "aten.linear.default"},
        {"inputs", {{"0", test::act_spec()}, {"1", test::weight_spec()}, {"2", kDerivedBias}}}}});
}

TEST_CASE("tuned ranges cut off what the result does not need, and derived scales follow",
          "[annotate][ranges]") {
  ObservedGraph observed = with_ignored_outliers(rules_with_bias());
  const Batches data = outlier_batches(observed.graph);
  calibrate(observed, data);
  const auto scale_of = [&](const std::string& value) {
    for (const Node* point : observer_nodes(observed.graph))
      if (observed_value(*point)->name() == value)
        return observed.observers[static_cast<size_t>(group_of(*point))]
            ->calculate_qparams()
            .scale.front();
    return 0.0F;
  };
  const float before = scale_of("x");
  Report report;
  const RangeTuning tuning =
      tune_ranges(observed, test::source_of(data), report, {.factors = {0.5, 0.25}});
  CHECK(tuning.ranges == 1);
  CHECK(tuning.changed == 1);
  CHECK(tuning.after_db > tuning.before_db + 5);
  CHECK(scale_of("x") < before * 0.51F);
  CHECK(scale_of("b") == scale_of("x") * scale_of("w"));
  REQUIRE(report.notes().size() == 1);
  CHECK(report.notes()[0].starts_with("ranges: 1 of 1 changed, "));
}

TEST_CASE("tuned ranges: no better range leaves the observer in place", "[annotate][ranges]") {
  ObservedGraph observed = prepare(uneven_linears(), test::linear_rules());
  const Batches data = random_batches(observed.graph, 5, 2);
  calibrate(observed, data);
  const std::vector<std::shared_ptr<Observer>> before = observed.observers;
  Report report;
  tune_ranges(observed, test::source_of(data), report, {.factors = {}});
  CHECK(observed.observers == before);
}

TEST_CASE("tuned ranges refuse options and data that make no sense", "[annotate][ranges][error]") {
  ObservedGraph observed = prepare(uneven_linears(), test::linear_rules());
  calibrate(observed, random_batches(observed.graph, 5, 1));
  const Batches none;
  Report report;
  CHECK(message_of([&] { tune_ranges(observed, test::source_of(none), report, {.batches = 0}); }) ==
        "ranges: batches: got 0, want at least 1");
  CHECK(message_of([&] {
          tune_ranges(observed, test::source_of(none), report, {.factors = {-1}});
        }) == "ranges: factors: got -1, want numbers above 0");
  CHECK(message_of([&] { tune_ranges(observed, test::source_of(none), report); }) ==
        "ranges: data: no batches, got 0, want at least 1");
}

TEST_CASE("bias correction takes out the mean error of a rounded weight", "[annotate][bias]") {
  Graph graph = parse_graph(R"(
    graph(%w = param "a.weight": f32[1,2], %b = param "a.bias": f32[1], %x: f32[4,2]):
      %y: f32[4,1] = aten.linear.default(%x, %w, %b)
      return (%y))");
  // The second weight is 0.4 of a step and rounds to 0; where the input is 1, the output lacks 0.4
  // / 127.
  to_aten(graph.constants.at("a.weight").tensor)
      .copy_(at::tensor({1.0, 0.4 / 127}).reshape({1, 2}));
  ObservedGraph observed = prepare(
      std::move(graph), Json::array({{{"target", "aten.linear.default"},
                                      {"inputs", {{"1", test::per_channel_weight_spec()}}}}}));
  const Batches data = {{at::ones({4, 2})}};
  calibrate(observed, data);
  Report report;
  CHECK(correct_biases(observed, test::source_of(data), report) == 1);
  CHECK(to_aten(*observed.graph.find_constant(observed.graph.find_node("y")->find_input("bias")))
            .item<double>() == Approx(0.4 / 127));
  CHECK(report.notes() == std::vector<std::string>{"bias correction: 1 of 1 biases changed"});
  CHECK(run_quantized(std::move(observed), data[0])[0][0].item<double>() == Approx(1 + 0.4 / 127));
}

TEST_CASE("bias correction does not change layers without bias", "[annotate][bias]") {
  ObservedGraph observed = prepare(uneven_linears(), test::linear_rules());
  const Batches data = random_batches(observed.graph, 5, 2);
  calibrate(observed, data);
  const size_t nodes = observed.graph.node_count();
  Report report;
  CHECK(correct_biases(observed, test::source_of(data), report) == 1);
  CHECK(observed.graph.node_count() == nodes);
}

TEST_CASE("effort: all passes together keep the graph's ops, say their progress and raise the SQNR",
          "[annotate][effort]") {
  ObservedGraph plain = prepare(uneven_linears(), test::linear_rules());
  ObservedGraph high = prepare(uneven_linears(), test::linear_rules());
  const Batches data = random_batches(plain.graph, 5, 6);
  const std::vector<c10::IValue> unseen = test::random_inputs(plain.graph, 77);
  const at::Tensor expected = run_float(plain, unseen);
  calibrate(plain, data);
  Report report;
  std::vector<std::string> heard;
  size_t opened = 0;
  const std::vector<EffortStage> stages = calibrate_with_passes(
      high,
      [&] {
        ++opened;
        return test::source_of(data);
      },
      data.size(), parse_accuracy_passes(accuracy_pass_names(), "--passes"), report,
      [&](std::string_view stage, size_t done, size_t total) {
        CHECK(done <= std::max<size_t>(total, done));
        if (heard.empty() || heard.back() != stage) heard.emplace_back(stage);
      });
  CHECK(heard == std::vector<std::string>{"equalize", "calibrate", "smooth", "correct-bias",
                                          "round", "adaptive", "ranges", "correct-bias", "round",
                                          "adaptive"});
  REQUIRE(stages.size() == heard.size());
  for (size_t i = 0; i < stages.size(); ++i) CHECK(stages[i].name == heard[i]);
  CHECK(opened == 17);
  Report ignored;
  const double before = sqnr(expected, run_quantized(std::move(plain), unseen));
  const Graph converted = convert_pt2e(std::move(high), {}, ignored);
  CHECK(test::targets(converted) ==
        test::targets(test::quantize(uneven_linears(), test::linear_rules())));
  CHECK(sqnr(expected, Interpreter(converted).run(unseen).at(0).toTensor()) > before + 3);
}

TEST_CASE("effort: passes are named, each once", "[annotate][effort][error]") {
  CHECK(message_of([] { parse_accuracy_passes({"smoothe"}, "--passes"); }) ==
        "quantize: --passes: no such pass, got \"smoothe\", want some of equalize, smooth, ranges, "
        "correct-bias, round, adaptive");
  CHECK(message_of([] { parse_accuracy_passes({"round", "round"}, "--passes"); }) ==
        "quantize: --passes: a pass runs once, got \"round\" twice; leave one out");
}

}  // namespace
}  // namespace octet::test_accuracy_passes

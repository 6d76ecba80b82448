// Accuracy passes that may change only some nodes.
#include <ATen/ops/equal.h>

#include "annotate/accuracy/accuracy_passes.h"
#include "annotate/accuracy/bias_correction.h"
#include "annotate/accuracy/channel_space.h"
#include "annotate/accuracy/rounding_cases.h"
#include "annotate/accuracy/smooth.h"
#include "annotate/accuracy/tune_ranges.h"
#include "annotate/accuracy/weight_rounding.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/flow_helpers.h"
#include "core/interpreter/aten_bridge.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_pass_filter {
namespace {

using test::Batches;
using test::random_batches;

constexpr const char* kTwoLinears = R"(
  graph(%w = param "a.weight": f32[8,6], %b = param "a.bias": f32[8], %v = param "c.weight": f32[5,8], %d = param "c.bias": f32[5], %x: f32[32,6]):
    %y: f32[32,8] = aten.linear.default(%x, %w, %b)
    %z: f32[32,8] = aten.relu.default(%y)
    %u: f32[32,5] = aten.linear.default(%z, %v, %d)
    return (%u))";

// Channel 0 between the layers is far larger than the others, and its weights as much smaller.
ObservedGraph uneven_linears() {
  Graph graph = parse_graph(kTwoLinears);
  test::fill_floats(graph);
  for (const char* name : {"a.weight", "a.bias"})
    to_aten(graph.constants.at(name).tensor)[0].mul_(64);
  to_aten(graph.constants.at("c.weight").tensor).select(1, 0).div_(64);
  return test::prepare(std::move(graph), test::linear_rules());
}

ObservedGraph calibrated(const Batches& data) {
  ObservedGraph observed = uneven_linears();
  calibrate(observed, data);
  return observed;
}

NodeFilter only(const std::string& name) {
  return [name](const Node& node) { return node.name() == name; };
}

at::Tensor operand(const ObservedGraph& observed, const char* node, const char* input) {
  const Value* value = observed.graph.find_node(node)->find_input(input);
  if (value->producer() != nullptr) value = value->producer()->find_input("input");
  return to_aten(*observed.graph.find_constant(value)).clone();
}

}  // namespace

TEST_CASE("channels are scaled where every layer that makes or reads them is chosen",
          "[annotate][filter]") {
  const auto either = [](const Node& node) { return node.is("aten.linear"); };
  Graph graph = parse_graph(kTwoLinears);
  test::fill_floats(graph);
  to_aten(graph.constants.at("a.weight").tensor)[0].mul_(64);
  CHECK(equalize_layers(graph, only("y")) == 0);
  CHECK(equalize_layers(graph, only("u")) == 0);
  CHECK(equalize_layers(graph, either) > 0);

  ObservedGraph observed = uneven_linears();
  const Batches data = random_batches(observed.graph, 5, 4);
  Report report;
  CHECK(
      smooth_activations(observed, test::source_of(data), report, {.applies = only("y")}).empty());
  CHECK(smooth_activations(observed, test::source_of(data), report, {.applies = either}).size() ==
        1);
}

TEST_CASE("weights and biases of other layers stay", "[annotate][filter]") {
  const Batches data = random_batches(uneven_linears().graph, 5, 4);
  ObservedGraph observed = calibrated(data);
  const at::Tensor weight = operand(observed, "y", "weight"), bias = operand(observed, "y", "bias"),
                   other = operand(observed, "u", "bias");
  Report report;
  CHECK(correct_biases(observed, test::source_of(data), report, {.applies = only("u")}) == 1);
  CHECK(at::equal(operand(observed, "y", "bias"), bias));
  CHECK_FALSE(at::equal(operand(observed, "u", "bias"), other));

  RoundingOptions options;
  options.walk.applies = only("u");
  const std::vector<LayerRounding> rounded =
      round_second_order(observed, test::source_of(data), report, options);
  CHECK(rounded.size() == 1);
  CHECK(at::equal(operand(observed, "y", "weight"), weight));
}

TEST_CASE("ranges are tried for the results of a chosen op, and for what it reads from the caller",
          "[annotate][filter]") {
  const Batches data = random_batches(uneven_linears().graph, 5, 2);
  const auto tried = [&](const NodeFilter& applies) {
    ObservedGraph observed = calibrated(data);
    Report report;
    return tune_ranges(observed, test::source_of(data), report, {.applies = applies}).ranges;
  };
  const size_t all = tried({});
  CHECK(all > 1);
  CHECK(tried(only("y")) < all);
  CHECK(tried(only("y")) > 0);
  CHECK(tried(only("nobody")) == 0);
}

TEST_CASE("the passes of a run ask the filter with their name", "[annotate][filter]") {
  const Batches data = random_batches(uneven_linears().graph, 5, 4);
  ObservedGraph plain = calibrated(data);
  ObservedGraph observed = uneven_linears();
  std::vector<AccuracyPass> asked;
  const PassFilter none = [&](AccuracyPass pass, const Node&) {
    if (asked.empty() || asked.back() != pass) asked.push_back(pass);
    return false;
  };
  Report report;
  calibrate_with_passes(
      observed, [&] { return test::source_of(data); }, data.size(),
      {AccuracyPass::kEqualize, AccuracyPass::kSmooth, AccuracyPass::kRanges,
       AccuracyPass::kCorrectBias, AccuracyPass::kRound},
      report, {}, nullptr, none);
  for (const AccuracyPass pass :
       {AccuracyPass::kEqualize, AccuracyPass::kSmooth, AccuracyPass::kRanges,
        AccuracyPass::kCorrectBias, AccuracyPass::kRound}) {
    INFO(name_of(pass));
    CHECK(std::find(asked.begin(), asked.end(), pass) != asked.end());
  }
  for (const char* node : {"y", "u"})
    for (const char* input : {"weight", "bias"})
      CHECK(at::equal(operand(observed, node, input), operand(plain, node, input)));
}

}  // namespace octet::test_pass_filter

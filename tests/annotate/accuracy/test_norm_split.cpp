// Smoothing of layer norms that a residual reads too: the copy of the norm, what stays unchanged,
// and undoing it.
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>

#include "annotate/accuracy/accuracy_passes.h"
#include "annotate/accuracy/rounding_cases.h"
#include "annotate/accuracy/smooth.h"
#include "annotate/accuracy/snapshot.h"
#include "annotate/accuracy/stepwise_run.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/flow_helpers.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_norm_split {
namespace {

using Json = nlohmann::ordered_json;
using test::Batches;
using test::prepare;
using test::random_batches;
using test::run_float;

constexpr const char* kBlock = R"(
  graph(%g = param "norm.weight": f32[16], %h = param "norm.bias": f32[16], %w = param "up.weight": f32[32,16], %v = param "down.weight": f32[16,32], %x: f32[24,16]):
    %n: f32[24,16] = aten.layer_norm.default(%x, [16], %g, %h)
    %u: f32[24,32] = aten.linear.default(%n, %w)
    %r: f32[24,32] = aten.gelu.default(%u)
    %d: f32[24,16] = aten.linear.default(%r, %v)
    %s: f32[24,16] = aten.add.Tensor(%n, %d)
    return (%s))";

// One channel of the norm is 32 times as large as the others; the weights that read it are small.
Graph uneven_block(const std::string& text = kBlock) {
  Graph graph = parse_graph(text);
  test::fill_floats(graph);
  to_aten(graph.constants.at("norm.weight").tensor).fill_(1.0).select(0, 3).fill_(32.0);
  to_aten(graph.constants.at("norm.bias").tensor).fill_(0.0);
  to_aten(graph.constants.at("up.weight").tensor).select(1, 3).div_(32);
  return graph;
}

Json linear_inputs() {
  return Json::array(
      {{{"target", "aten.linear.default"},
        {"inputs", {{"0", test::act_spec()}, {"1", test::per_channel_weight_spec()}}}}});
}

double quantized_error(ObservedGraph observed, const at::Tensor& expected,
                       const std::vector<c10::IValue>& batch) {
  Report report;
  const Graph graph = convert_pt2e(std::move(observed), {}, report);
  return (Interpreter(graph).run(batch).at(0).toTensor() - expected).square().mean().item<double>();
}

}  // namespace

TEST_CASE("smoothing gives the linears after a residual's layer norm a copy of it",
          "[annotate][smooth]") {
  ObservedGraph plain = prepare(uneven_block(), linear_inputs());
  ObservedGraph smoothed = prepare(uneven_block(), linear_inputs());
  const Batches data = random_batches(plain.graph, 5, 4);
  const std::vector<c10::IValue> unseen = test::random_inputs(plain.graph, 77);
  Report report;
  const std::vector<SmoothedSpace> spaces =
      smooth_activations(smoothed, test::source_of(data), report);
  REQUIRE(spaces.size() == 1);
  CHECK(spaces[0].maker == "n_smoothed");
  CHECK(report.notes() ==
        std::vector<std::string>{
            "smooth: 1 of 1 sets of channels scaled, 1 of them from a copy of a layer norm"});
  CHECK(test::count_of(smoothed.graph, "aten.layer_norm.default") == 2);
  CHECK(test::count_of(smoothed.graph, kObserveTarget) ==
        test::count_of(plain.graph, kObserveTarget));
  CHECK(smoothed.graph.find_node("s")->find_input("self") ==
        smoothed.graph.find_node("n")->output());
  const at::Tensor expected = run_float(plain, unseen);
  CHECK(at::equal(run_float(smoothed, unseen), expected));
  calibrate(plain, data);
  calibrate(smoothed, data);
  CHECK(quantized_error(std::move(smoothed), expected, unseen) <
        0.5 * quantized_error(std::move(plain), expected, unseen));
}

TEST_CASE("a point that an add and a linear share still serves the add", "[annotate][smooth]") {
  Json rules = linear_inputs();
  rules.push_back({{"target", "aten.add.Tensor"}, {"inputs", {{"0", test::act_spec()}}}});
  ObservedGraph observed = prepare(uneven_block(), rules);
  const int points = test::count_of(observed.graph, kObserveTarget);
  const Batches data = random_batches(observed.graph, 5, 2);
  Report report;
  const std::vector<SmoothedSpace> spaces =
      smooth_activations(observed, test::source_of(data), report);
  REQUIRE(spaces.size() == 1);
  CHECK(test::count_of(observed.graph, kObserveTarget) == points + 1);
  const Node* added = observed.graph.find_node("s")->find_input("self")->producer();
  const Node* multiplied = observed.graph.find_node("u")->find_input("input")->producer();
  CHECK(observed_value(*added)->name() == "n");
  CHECK(observed_value(*multiplied)->name() == "n_smoothed");
  CHECK(group_of(*added) != group_of(*multiplied));
  calibrate(observed, data);
  CHECK_FALSE(needs_calibration(observed));
  undo_smoothing(observed, spaces);
  CHECK(test::count_of(observed.graph, kObserveTarget) == points);
}

TEST_CASE("undone smoothing leaves the graph and its constants as they were",
          "[annotate][smooth]") {
  ObservedGraph observed = prepare(uneven_block(), linear_inputs());
  const std::string before = to_text(observed.graph);
  const at::Tensor weight = to_aten(observed.graph.constants.at("up.weight").tensor).clone();
  const Batches data = random_batches(observed.graph, 5, 2);
  Report report;
  const std::vector<SmoothedSpace> spaces =
      smooth_activations(observed, test::source_of(data), report);
  REQUIRE(spaces.size() == 1);
  CHECK_FALSE(at::equal(to_aten(observed.graph.constants.at("up.weight").tensor), weight));
  undo_smoothing(observed, spaces);
  CHECK(to_text(observed.graph) == before);
  CHECK(at::equal(to_aten(observed.graph.constants.at("up.weight").tensor), weight));
}

TEST_CASE("a layer norm gets no copy where that gains too little, or nothing else reads it",
          "[annotate][smooth]") {
  Report report;
  SECTION("little to gain") {
    ObservedGraph observed = prepare(uneven_block(), linear_inputs());
    const std::string before = to_text(observed.graph);
    const Batches data = random_batches(observed.graph, 5, 2);
    CHECK(smooth_activations(observed, test::source_of(data), report, {.least_split_gain_db = 99})
              .empty());
    CHECK(to_text(observed.graph) == before);
  }
  SECTION("never wanted") {
    ObservedGraph observed = prepare(uneven_block(), linear_inputs());
    const Batches data = random_batches(observed.graph, 5, 2);
    CHECK(smooth_activations(observed, test::source_of(data), report,
                             {.least_split_gain_db = std::numeric_limits<double>::infinity()})
              .empty());
  }
  SECTION("one reader") {
    std::string text = kBlock;
    text.replace(text.find("aten.add.Tensor(%n, %d)"),
                 std::string("aten.add.Tensor(%n, %d)").size(), "aten.add.Tensor(%x, %d)");
    ObservedGraph observed = prepare(uneven_block(text), linear_inputs());
    CHECK(split_norms(observed).empty());
  }
}

TEST_CASE("smoothing refuses a gain below zero", "[annotate][smooth][error]") {
  ObservedGraph observed = prepare(uneven_block(), linear_inputs());
  Report report;
  std::string message;
  try {
    smooth_activations(observed, test::source_of(Batches()), report, {.least_split_gain_db = -1});
  } catch (const std::exception& error) {
    message = error.what();
  }
  CHECK(message == "smooth: least_split_gain_db: got -1, want 0 or more");
}

TEST_CASE("effort keeps smoothing that held-out data confirms", "[annotate][effort]") {
  ObservedGraph observed = prepare(uneven_block(), linear_inputs());
  const Batches data = random_batches(observed.graph, 5, 4);
  Report report;
  calibrate_with_passes(
      observed, [&] { return test::source_of(data); }, data.size(), {AccuracyPass::kSmooth},
      report);
  CHECK(test::count_of(observed.graph, "aten.layer_norm.default") == 2);
  REQUIRE(report.notes().size() == 2);
  CHECK(report.notes()[1].starts_with("smooth: "));
  CHECK(report.notes()[1].ends_with(" dB on held-out calibration data"));
}

TEST_CASE("fresh observers saw nothing; derived ones follow them, fixed ones stay",
          "[annotate][effort]") {
  ObservedGraph observed = prepare(uneven_block(), linear_inputs());
  calibrate(observed, random_batches(observed.graph, 5, 2));
  const std::vector<std::shared_ptr<Observer>> fresh = fresh_observers(observed);
  REQUIRE(fresh.size() == observed.observers.size());
  for (size_t i = 0; i < fresh.size(); ++i) {
    CHECK(observed.observers[i]->has_data());
    CHECK_FALSE(fresh[i]->has_data());
    CHECK(fresh[i]->args().choice.name == observed.observers[i]->args().choice.name);
  }
}

}  // namespace octet::test_norm_split

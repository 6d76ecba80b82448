// Rounding of weights by calibration data: smaller errors on unseen data, weights that convert does
// not change, and refusals.
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "annotate/accuracy/rounding_cases.h"
#include "annotate/accuracy/weight_rounding.h"
#include "annotate/convert/convert.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_rounding {
namespace {

using namespace test;

const char* const kLinear =
    R"(graph(%w = param "w": f32[12,32], %b = param "b": f32[12], %x: f32[64,32]):
    %y: f32[64,12] = aten.linear.default(%x, %w, %b)
    return (%y))";
const char* const kDepthwise =
    R"(graph(%w = param "w": f32[6,1,3,3], %b = param "b": f32[6], %x: f32[4,6,12,12]):
    %y: f32[4,6,12,12] = aten.conv2d.default(%x, %w, %b, [1, 1], [1, 1], [1, 1], 6)
    return (%y))";
const char* const kGrouped = R"(graph(%w = param "w": f32[8,4,3,3], %x: f32[4,8,10,10]):
    %y: f32[4,8,10,10] = aten.conv2d.default(%x, %w, None, [1, 1], [1, 1], [1, 1], 2)
    return (%y))";

using RoundFn =
    std::function<std::vector<LayerRounding>(ObservedGraph&, const BatchSource&, Report&)>;

const RoundFn kSecondOrder = [](ObservedGraph& observed, const BatchSource& data, Report& report) {
  return round_second_order(observed, data, report);
};
const RoundFn kAdaptive = [](ObservedGraph& observed, const BatchSource& data, Report& report) {
  return round_adaptive(observed, data, report);
};

Graph convert(ObservedGraph observed) {
  Report report;
  return convert_pt2e(std::move(observed), {}, report);
}

ObservedGraph copy_of(const ObservedGraph& observed) {
  return {std::move(*clone(observed.graph)), observed.observers, {}};
}

// The output's error on unseen batches with this rounding, relative to rounding to nearest.
double error_ratio(ObservedGraph observed, const RoundFn& round) {
  const bool is_image = observed.graph.user_inputs().front()->meta->sizes.size() == 4;
  const auto make_batches = [&](uint64_t seed) {
    return is_image ? smooth_batches(observed.graph, 4, seed)
                    : correlated_batches(observed.graph, 1, 4, seed);
  };
  const Batches batches = make_batches(11);
  const Batches unseen = make_batches(99);
  calibrate(observed, batches);
  const Graph reference = without_points(observed);
  const Graph nearest = convert(copy_of(observed));
  Report report;
  round(observed, source_of(batches), report);
  return output_error(reference, convert(std::move(observed)), unseen) /
         output_error(reference, nearest, unseen);
}

const at::Tensor only_int8_constant(const Graph& graph) {
  at::Tensor found;
  for (const auto& [fqn, constant] : graph.constants)
    if (constant.tensor.dtype() == DType::kInt8) found = to_aten(constant.tensor);
  REQUIRE(found.defined());
  return found;
}

// Whether the rounded weight is on its grid to the bit, and convert stores the same integers.
bool convert_keeps(ObservedGraph observed, const RoundFn& round) {
  const Batches batches = correlated_batches(observed.graph, 1, 2);
  calibrate(observed, batches);
  Report report;
  round(observed, source_of(batches), report);
  const MatrixLayer layer = find_matrix_layers(observed, "test", report).at(0);
  const at::Tensor weight = weight_of(layer).clone();
  const WeightGrid grid =
      weight_grid(*observed.observers[static_cast<size_t>(layer.weight_group)], weight, "%w");
  const at::Tensor q = grid.nearest(weight);
  const Graph converted = convert(std::move(observed));
  return at::equal(grid.values(q), weight) &&
         at::equal(only_int8_constant(converted).to(at::kDouble), q);
}

std::string error_of(ObservedGraph& observed, const Batches& batches,
                     const RoundingOptions& options, const SecondOrderOptions& method = {}) {
  Report report;
  try {
    round_second_order(observed, source_of(batches), report, options, method);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::string adaptive_error(const AdaptiveOptions& options) {
  try {
    adaptive_method(options);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("second-order rounding has a third of the nearest rounding's error on correlated inputs",
          "[annotate][rounding]") {
  CHECK(error_ratio(observe_layers(kLinear, std::nullopt, channel_weight(7)), kSecondOrder) < 0.33);
  CHECK(error_ratio(observe_layers(kLinear, int8_activation(), channel_weight(7)), kSecondOrder) <
        0.33);
}

TEST_CASE("second-order rounding serves int4 weights with a scale per group",
          "[annotate][rounding]") {
  CHECK(error_ratio(observe_layers(kLinear, std::nullopt, group_weight(8)), kSecondOrder) < 0.5);
}

TEST_CASE("second-order rounding serves grouped and depthwise convolutions",
          "[annotate][rounding]") {
  CHECK(error_ratio(observe_layers(kGrouped, std::nullopt, channel_weight(7)), kSecondOrder) < 0.5);
  CHECK(error_ratio(observe_layers(kDepthwise, std::nullopt, channel_weight(7)), kSecondOrder) <
        0.9);
}

TEST_CASE("second-order rounding serves weights stored by column", "[annotate][rounding]") {
  CHECK(error_ratio(observe_layers(R"(graph(%w = param "w": f32[32,12], %x: f32[64,32]):
    %y: f32[64,12] = aten.mm.default(%x, %w)
    return (%y))",
                                   std::nullopt, channel_weight(7, 1)),
                    kSecondOrder) < 0.33);
}

TEST_CASE("adaptive rounding has half of the nearest rounding's error on correlated inputs",
          "[annotate][rounding]") {
  CHECK(error_ratio(observe_layers(kLinear, std::nullopt, channel_weight(7)), kAdaptive) < 0.5);
  CHECK(error_ratio(observe_layers(kDepthwise, int8_activation(), channel_weight(7)), kAdaptive) <
        0.9);
}

TEST_CASE("convert stores the integers that rounding chose", "[annotate][rounding]") {
  for (const RoundFn& round : {kSecondOrder, kAdaptive}) {
    CHECK(convert_keeps(observe_layers(kLinear, std::nullopt, channel_weight(127)), round));
    CHECK(convert_keeps(observe_layers(kLinear, std::nullopt, group_weight(8)), round));
    CHECK(convert_keeps(observe_layers(kDepthwise, std::nullopt, channel_weight(7)), round));
  }
}

TEST_CASE("rounding is the same each time", "[annotate][rounding]") {
  ObservedGraph one = observe_layers(kLinear, int8_activation(), channel_weight(7));
  const Batches batches = correlated_batches(one.graph, 1, 3);
  calibrate(one, batches);
  ObservedGraph two = copy_of(one);
  Report report;
  round_second_order(one, source_of(batches), report);
  round_second_order(two, source_of(batches), report);
  CHECK(at::equal(weight_of(find_matrix_layers(one, "test", report).at(0)),
                  weight_of(find_matrix_layers(two, "test", report).at(0))));
}

TEST_CASE("inputs that are always zero leave their weights at the nearest",
          "[annotate][rounding]") {
  ObservedGraph observed = observe_layers(kLinear, std::nullopt, channel_weight(7));
  Batches batches = correlated_batches(observed.graph, 1, 2);
  for (std::vector<c10::IValue>& batch : batches) batch[0].toTensor().narrow(1, 0, 5).zero_();
  calibrate(observed, batches);
  Report report;
  const MatrixLayer layer = find_matrix_layers(observed, "test", report).at(0);
  const at::Tensor before = weight_of(layer).clone();
  const WeightGrid grid =
      weight_grid(*observed.observers[static_cast<size_t>(layer.weight_group)], before, "%w");
  round_second_order(observed, source_of(batches), report);
  const at::Tensor after = weight_of(find_matrix_layers(observed, "test", report).at(0));
  CHECK(at::equal(after.narrow(1, 0, 5), grid.values(grid.nearest(before)).narrow(1, 0, 5)));
  for (std::vector<c10::IValue>& batch : batches) batch[0].toTensor().zero_();
  const std::vector<LayerRounding> results =
      round_second_order(observed, source_of(batches), report);
  CHECK_FALSE(results.at(0).is_better);
}

TEST_CASE("the report and the progress name each rounded layer", "[annotate][rounding]") {
  ObservedGraph observed = observe_layers(kLinear, std::nullopt, channel_weight(7));
  const Batches batches = correlated_batches(observed.graph, 1, 2);
  calibrate(observed, batches);
  std::string seen;
  RoundingOptions options;
  options.walk.progress = [&](size_t done, size_t total, const std::string& layer) {
    seen += std::to_string(done) + "/" + std::to_string(total) + layer;
  };
  Report report;
  const std::vector<LayerRounding> results =
      round_second_order(observed, source_of(batches), report, options);
  REQUIRE(results.size() == 1);
  CHECK(results[0].is_better);
  CHECK(results[0].after_db > results[0].before_db + 3);
  CHECK(seen == "1/1y");
  REQUIRE(report.details().size() == 1);
  CHECK(report.details()[0].starts_with("second-order rounding: y: "));
}

TEST_CASE("a program that writes to its input keeps its weights", "[annotate][rounding]") {
  ObservedGraph observed = observe_layers(
      R"(graph(%w = param "w": f32[12,32], %n = buffer "n": f32[64,32], %x: f32[64,32]):
    %sum: f32[64,32] = aten.add_.Tensor(%x, %n)
    %y: f32[64,12] = aten.linear.default(%sum, %w)
    return (%y))",
      std::nullopt, channel_weight(7));
  const Batches batches = correlated_batches(observed.graph, 1, 1);
  Report report;
  CHECK(round_second_order(observed, source_of(batches), report).empty());
  CHECK(report.notes() ==
        std::vector<std::string>{
            "second-order rounding: left out: the program writes to its input %x"});
}

TEST_CASE("rounding refuses NaN and options out of range", "[annotate][rounding][error]") {
  ObservedGraph observed = observe_layers(kLinear, std::nullopt, channel_weight(7));
  Batches batches = correlated_batches(observed.graph, 1, 1);
  calibrate(observed, batches);
  RoundingOptions undamped;
  undamped.settings = {{.damping = 0}};
  CHECK(error_of(observed, batches, undamped) ==
        "second-order rounding: damping: got 0, want a number above 0; 0.01 is typical");
  CHECK(error_of(observed, batches, {}, {.block_columns = 0}) ==
        "second-order rounding: block_columns: got 0, want at least 1; 128 is typical");
  CHECK(error_of(observed, batches, {}, {.passes = -1}) ==
        "second-order rounding: passes: got -1, want at least 0");
  CHECK(adaptive_error({.iterations = 0}) ==
        "adaptive rounding: iterations: got 0, want at least 1; 1000 is typical");
  CHECK(adaptive_error({.learning_rate = -1}) ==
        "adaptive rounding: learning_rate: got -1, want a number above 0; 0.02 is typical");
  CHECK(adaptive_error({.regularization = 0}) ==
        "adaptive rounding: regularization: got 0, want a number above 0; 0.1 is typical");
  CHECK(adaptive_error({.warm_up = 1}) ==
        "adaptive rounding: warm_up: got 1, want a number from 0 to below 1; 0.2 is typical");
  batches[0][0].toTensor().fill_(std::numeric_limits<double>::quiet_NaN());
  CHECK(error_of(observed, batches, {}) ==
        "second-order rounding: %y: its inputs or outputs hold NaN or infinities, want finite "
        "numbers; check the model and the data");
  CHECK(error_of(observed, {}, {}) ==
        "second-order rounding: data: no batches, got 0, want at least 1");
}

}  // namespace octet::test_rounding

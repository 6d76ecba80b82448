// Held-out data: a pass that it does not confirm is undone, rounding uses it, and rounding with
// `follow` compensates noise in its input.
#include "annotate/accuracy/held_out_check.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include "annotate/accuracy/rounding_cases.h"
#include "annotate/accuracy/weight_rounding.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_held_out {
namespace {

using namespace test;

const char* const kLinear =
    R"(graph(%w = param "w": f32[12,32], %b = param "b": f32[12], %x: f32[64,32]):
    %y: f32[64,12] = aten.linear.default(%x, %w, %b)
    return (%y))";

MatrixLayer only_layer(const ObservedGraph& observed) {
  Report report;
  return find_matrix_layers(observed, "test", report).at(0);
}

ObservedGraph calibrated(const Batches& batches,
                         const std::optional<QuantizationSpec>& act = std::nullopt,
                         int64_t quant_max = 7) {
  ObservedGraph observed = observe_layers(kLinear, act, channel_weight(quant_max));
  calibrate(observed, batches);
  return observed;
}

Batches batches_of(size_t count, uint64_t seed) {
  return correlated_batches(observe_layers(kLinear, std::nullopt, channel_weight(7)).graph, 1,
                            count, seed);
}

std::string message_of(const RoundingOptions& options) {
  const Batches batches = batches_of(2, 11);
  ObservedGraph observed = calibrated(batches);
  Report report;
  try {
    round_second_order(observed, source_of(batches), report, options);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// The input is rounded to 15 steps, so the float weight does not give the float output.
QuantizationSpec coarse_activation() {
  QuantizationSpec spec = int8_activation();
  spec.quant_min = -8;
  spec.quant_max = 7;
  return spec;
}

double error_with(const RoundingSetting& setting) {
  const Batches batches = batches_of(6, 11);
  ObservedGraph observed = calibrated(batches, coarse_activation(), 127);
  const Graph reference = without_points(observed);
  Report report;
  round_second_order(observed, source_of(batches), report, {.settings = {setting}});
  return output_error(reference, convert_pt2e(std::move(observed), {}, report), batches_of(6, 99));
}

}  // namespace

TEST_CASE("a change that held-out data confirms is kept", "[annotate][held_out]") {
  const Batches batches = batches_of(4, 11);
  ObservedGraph observed = calibrated(batches);
  HeldOutCheck check(observed, HeldOutData(without_points(observed), source_of(batches)));
  Report report;
  round_second_order(observed, source_of(batches), report);
  const at::Tensor rounded = weight_of(only_layer(observed)).clone();
  const std::string text = check.keep_or_undo().description();
  CHECK(text.ends_with(" dB on held-out calibration data"));
  CHECK(at::equal(weight_of(only_layer(observed)), rounded));
}

TEST_CASE("a change that is worse, or not better by 0.3 dB, is undone to the bit",
          "[annotate][held_out]") {
  const Batches batches = batches_of(4, 11);
  ObservedGraph observed = calibrated(batches);
  const at::Tensor weight = weight_of(only_layer(observed)).clone();
  const at::Tensor bias = bias_of(only_layer(observed)).clone();
  HeldOutCheck check(observed, HeldOutData(without_points(observed), source_of(batches)));
  SECTION("worse") {
    MatrixLayer layer = only_layer(observed);
    set_weight(layer, weight * 1.5);
    set_bias(layer, bias + 3);
  }
  SECTION("the same") {}
  const std::string text = check.keep_or_undo().description();
  CHECK(text.ends_with(" dB on held-out calibration data, undone"));
  CHECK(at::equal(weight_of(only_layer(observed)), weight));
  CHECK(at::equal(bias_of(only_layer(observed)), bias));
}

TEST_CASE("a gain of 0.3 dB is enough", "[annotate][held_out]") {
  CHECK(HeldOutGain{1.0, std::pow(10.0, -0.031)}.is_enough());
  CHECK_FALSE(HeldOutGain{1.0, std::pow(10.0, -0.029)}.is_enough());
  CHECK_FALSE(HeldOutGain{1.0, std::nan("")}.is_enough());
  CHECK(HeldOutGain{0.1, 0.01}.description() == "10.00 -> 20.00 dB on held-out calibration data");
  CHECK(HeldOutGain{0.01, 0.01}.description() ==
        "20.00 -> 20.00 dB on held-out calibration data, undone");
}

TEST_CASE("logits of a language model are judged by their probabilities", "[annotate][held_out]") {
  ObservedGraph observed = observe_layers(
      R"(graph(%t = param "t": f32[7,4], %w = param "w": f32[7,4], %b = param "b": f32[7], %x: i64[2,5]):
    %e: f32[2,5,4] = aten.embedding.default(%t, %x)
    %y: f32[2,5,7] = aten.linear.default(%e, %w, %b)
    return (%y))",
      std::nullopt, channel_weight(7));
  const Batches batches = {{at::arange(10).remainder(7).reshape({2, 5})}};
  calibrate(observed, batches);
  const HeldOutData data(without_points(observed), source_of(batches));
  const double before = data.error(observed);
  CHECK(before > 0);
  MatrixLayer layer = only_layer(observed);
  set_bias(layer, bias_of(layer) + 3);  // the probabilities stay the same
  CHECK(data.error(observed) == Approx(before).epsilon(1e-3));
  CHECK(data.gain(0.25, 0.125).description() ==
        "KL divergence 0.2500 -> 0.1250 on held-out calibration data");
}

TEST_CASE("held-out data must have a batch", "[annotate][held_out][error]") {
  const Graph graph = without_points(observe_layers(kLinear, std::nullopt, channel_weight(7)));
  std::string message;
  try {
    HeldOutData(graph, source_of(Batches()));
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message == "quantize: data: no batches, got 0, want at least 1");
}

TEST_CASE("rounding that follows makes up for noise in its input", "[annotate][rounding]") {
  CHECK(error_with({.damping = 0.01, .follow = 1}) <
        0.9 * error_with({.damping = 0.01, .follow = 0}));
}

TEST_CASE("rounding decides on the held-out data, not on the data that it was found with",
          "[annotate][rounding]") {
  // The last batch has another relation between features: what was fitted to the first ones does
  // not serve it.
  Batches batches = batches_of(4, 11);
  ObservedGraph observed = calibrated(batches);
  const at::Tensor before = weight_of(only_layer(observed)).clone();
  batches[3][0].toTensor().copy_(batches[3][0].toTensor().flip(1) * 8);
  const WeightGrid grid = weight_grid(
      *observed.observers[static_cast<size_t>(only_layer(observed).weight_group)], before, "%w");
  Report report;
  const std::vector<LayerRounding> results = round_second_order(
      observed, source_of(batches), report, {.settings = {{0.0001, 0}}, .held_out = 0.25});
  REQUIRE(results.size() == 1);
  CHECK_FALSE(results[0].is_better);
  CHECK(at::equal(weight_of(only_layer(observed)), grid.values(grid.nearest(before))));
}

TEST_CASE("rounding refuses shares and dampings out of range", "[annotate][rounding][error]") {
  CHECK(message_of({.settings = {}}) ==
        "second-order rounding: settings: none, got 0, want at least 1");
  CHECK(message_of({.settings = {{0.01, 2}}}) ==
        "second-order rounding: follow: got 2, want a number from 0 to 1");
  CHECK(message_of({.held_out = 0}) ==
        "second-order rounding: held_out: got 0, want a number between 0 and 1; 0.25 is typical");
  CHECK(message_of({.held_out = 1}) ==
        "second-order rounding: held_out: got 1, want a number between 0 and 1; 0.25 is typical");
}

}  // namespace octet::test_held_out

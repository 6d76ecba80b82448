// Smoothing of programs whose activations stay float: scales and ranges of weights in groups follow
// the energy of their inputs.
#include <ATen/ops/equal.h>

#include "annotate/accuracy/accuracy_passes.h"
#include "annotate/accuracy/rounding_cases.h"
#include "annotate/accuracy/smooth.h"
#include "annotate/convert/convert.h"
#include "annotate/flow_helpers.h"
#include "core/interpreter/aten_bridge.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_smooth_weights {
namespace {

using test::Batches;
using test::output_error;

// An RMS norm in parts, as decoders are exported, and a gated linear unit.
const std::string kBlock = R"(
  graph(%n = param "norm": f32[64], %gw = param "gate": f32[96,64], %uw = param "up": f32[96,64], %dw = param "down": f32[32,96], %x: f32[40,64]):
    %p: f32[40,64] = aten.pow.Tensor_Scalar(%x, 2)
    %m: f32[40,1] = aten.mean.dim(%p, [-1], True)
    %e: f32[40,1] = aten.add.Tensor(%m, 1e-05)
    %r: f32[40,1] = aten.rsqrt.default(%e)
    %h: f32[40,64] = aten.mul.Tensor(%x, %r)
    %y: f32[40,64] = aten.mul.Tensor(%n, %h)
    %g: f32[40,96] = aten.linear.default(%y, %gw)
    %u: f32[40,96] = aten.linear.default(%y, %uw)
    %s: f32[40,96] = aten.silu.default(%g)
    %t: f32[40,96] = aten.mul.Tensor(%s, %u)
    %d: f32[40,32] = aten.linear.default(%t, %dw)
    return (%d))";

// A few channels of the norm and of the product are far larger than the others.
ObservedGraph observe(const std::string& text = kBlock) {
  QuantizationSpec weight = test::group_weight(32);
  weight.observer_or_fake_quant_ctr.name = "affine_mse";
  ObservedGraph observed = test::observe_layers(text, std::nullopt, weight);
  for (const int64_t channel : {3, 20, 41}) {
    to_aten(observed.graph.constants.at("norm").tensor)[channel].mul_(16);
    if (observed.graph.constants.contains("up"))
      to_aten(observed.graph.constants.at("up").tensor)[channel].mul_(16);
  }
  return observed;
}

double error_on_unseen(ObservedGraph observed, const Graph& want) {
  Report report;
  const Graph converted = convert_pt2e(std::move(observed), {}, report);
  return output_error(want, converted, test::random_batches(want, 77, 4));
}

double error_after(const std::vector<AccuracyPass>& passes, Report& report) {
  ObservedGraph observed = observe();
  const Graph want = test::without_points(observed);
  const Batches data = test::random_batches(observed.graph, 5, 8);
  calibrate_with_passes(
      observed, [&] { return test::source_of(data); }, data.size(), passes, report);
  return error_on_unseen(std::move(observed), want);
}

TEST_CASE("smoothing follows the energy of float activations after an RMS norm and in a gate",
          "[annotate][smooth]") {
  Report report;
  const double nearest = error_after({}, report);
  const double smoothed = error_after({AccuracyPass::kSmooth}, report);
  CHECK(smoothed < 0.4 * nearest);
  REQUIRE(report.notes().size() == 3);
  CHECK(report.notes()[0] == "smooth: 2 of 2 sets of channels scaled");
  CHECK(report.notes()[1] == "smooth: 3 weights have ranges fitted to their inputs");
  CHECK_THAT(report.notes()[2], Catch::EndsWith("dB on held-out calibration data"));
}

TEST_CASE("fitted ranges alone lower the error, and factors change no bit of the float program",
          "[annotate][smooth]") {
  ObservedGraph observed = observe();
  const Graph want = test::without_points(observed);
  const Batches data = test::random_batches(observed.graph, 5, 4);
  calibrate(observed, data);
  const double nearest =
      error_on_unseen({std::move(*clone(observed.graph)), observed.observers, {}}, want);
  Report report;
  CHECK(fit_weight_ranges(observed, test::source_of(data), report) == 3);
  CHECK(error_on_unseen(std::move(observed), want) < 0.8 * nearest);

  ObservedGraph scaled = observe();
  const at::Tensor expected = test::run_float(scaled, data[0]);
  const std::vector<SmoothedSpace> spaces =
      smooth_activations(scaled, test::source_of(data), report);
  REQUIRE(spaces.size() == 2);
  CHECK(spaces[0].maker == "y");
  CHECK(spaces[1].maker == "u");
  CHECK(spaces[0].factors.max().item<double>() > 1);
  CHECK(at::equal(test::run_float(scaled, data[0]), expected));
}

TEST_CASE("a product scales with one of its operands only", "[annotate][smooth]") {
  const auto makers_with = [](const std::string& product) {
    std::string text = kBlock;
    const std::string before = "aten.mul.Tensor(%s, %u)";
    text.replace(text.find(before), before.size(), product);
    ObservedGraph observed = observe(text);
    std::vector<std::string> names;
    for (const ChannelSpace& space : find_channel_spaces(observed.graph))
      names.push_back(space.makers.front().op->name());
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(makers_with("aten.mul.Tensor(%s, %u)") == Names{"y", "u"});
  CHECK(makers_with("aten.mul.Tensor(%u, %g)") == Names{"y", "u"});
  CHECK(makers_with("aten.mul.Tensor(%u, %u)") == Names{"y"});
}

TEST_CASE("fitting ranges refuses data that makes no sense", "[annotate][smooth][error]") {
  ObservedGraph observed = observe();
  Batches broken = test::random_batches(observed.graph, 5, 1);
  calibrate(observed, broken);
  broken[0][0].toTensor()[0][0] = std::nan("");
  Report report;
  CHECK_THROWS_WITH(fit_weight_ranges(observed, test::source_of(broken), report),
                    Catch::Contains("got NaN or infinities"));
  CHECK_THROWS_WITH(fit_weight_ranges(observed, test::source_of({}), report),
                    Catch::StartsWith("smooth: data: no batches"));
}

}  // namespace
}  // namespace octet::test_smooth_weights

// Layers with a constant, observed weight: finding them, their matrices and rows, and walking
// through them with data.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include "annotate/accuracy/layer_walk.h"
#include "annotate/accuracy/matrix_layers.h"
#include "annotate/accuracy/rounding_cases.h"
#include "core/base/error.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_matrix_layers {
namespace {

using namespace test;

std::vector<MatrixLayer> layers_of(const ObservedGraph& observed) {
  Report report;
  return find_matrix_layers(observed, "test", report);
}

std::string refusal_of(const std::string& text) {
  const ObservedGraph observed = observe_layers(text, std::nullopt, channel_weight(127));
  Report report;
  CHECK(find_matrix_layers(observed, "test", report).empty());
  CHECK(report.entries().empty());  // these are for ops that stay float
  return report.notes().empty() ? "" : report.notes().front();
}

// Whether rows times matrices equals the op's result without the bias.
bool rows_give_output(const std::string& text) {
  ObservedGraph observed = observe_layers(text, std::nullopt, channel_weight(127));
  const Batches batches = correlated_batches(observed.graph, 1, 1);
  calibrate(observed, batches);
  LayerWalk walk(observed, layers_of(observed), source_of(batches), "test");
  REQUIRE(walk.next());
  const MatrixLayer& layer = walk.layer();
  const at::Tensor rows = input_rows(layer, walk.samples().at(0).quantized_input);
  at::Tensor product = at::bmm(rows, to_matrices(layer, weight_of(layer)).transpose(1, 2));
  const at::Tensor bias = bias_of(layer);
  if (bias.defined()) product = product + bias.reshape({layer.groups, 1, -1});
  const at::Tensor weight = weight_of(layer);
  return at::allclose(product, output_rows(layer, walk.samples().at(0).float_output), 1e-4, 1e-4) &&
         at::equal(from_matrices(layer, to_matrices(layer, weight)), weight);
}

const char* const kTwoLinears =
    R"(graph(%v = param "v": f32[6,8], %b = param "b": f32[6], %w = param "w": f32[4,6], %x: f32[5,8]):
    %first: f32[5,6] = aten.linear.default(%x, %v, %b)
    %relu: f32[5,6] = aten.relu_.default(%first)
    %second: f32[5,4] = aten.linear.default(%relu, %w)
    return (%second))";

}  // namespace

TEST_CASE("rows times matrices is what a layer computes", "[annotate][matrix_layers]") {
  CHECK(
      rows_give_output(R"(graph(%w = param "w": f32[4,8], %b = param "b": f32[4], %x: f32[2,8,3,8]):
    %y: f32[2,8,3,4] = aten.linear.default(%x, %w, %b)
    return (%y))"));
  CHECK(rows_give_output(R"(graph(%w = param "w": f32[8,4], %x: f32[5,8]):
    %y: f32[5,4] = aten.mm.default(%x, %w)
    return (%y))"));
  CHECK(rows_give_output(R"(graph(%b = param "b": f32[4], %w = param "w": f32[8,4], %x: f32[5,8]):
    %y: f32[5,4] = aten.addmm.default(%b, %x, %w)
    return (%y))"));
  CHECK(rows_give_output(R"(graph(%w = param "w": f32[4,6,3], %x: f32[2,6,9]):
    %y: f32[2,4,5] = aten.conv1d.default(%x, %w, None, [2], [1], [1], 1)
    return (%y))"));
  CHECK(rows_give_output(
      R"(graph(%w = param "w": f32[4,3,3,2], %b = param "b": f32[4], %x: f32[2,6,9,7]):
    %y: f32[2,4,5,4] = aten.conv2d.default(%x, %w, %b, [2, 2], [2, 1], [2, 1], 2)
    return (%y))"));
  CHECK(rows_give_output(R"(graph(%w = param "w": f32[6,1,3,3], %x: f32[6,5,5]):
    %y: f32[6,5,5] = aten.conv2d.default(%x, %w, None, [1, 1], [1, 1], [1, 1], 6)
    return (%y))"));
  CHECK(rows_give_output(R"(graph(%w = param "w": f32[4,6,2,3], %x: f32[2,6,5,5]):
    %y: f32[2,4,5,5] = aten.conv2d.padding(%x, %w, None, [1, 1], "same")
    return (%y))"));
  CHECK(rows_give_output(R"(graph(%w = param "w": f32[4,6,2,2,2], %x: f32[1,6,4,5,3]):
    %y: f32[1,4,3,4,2] = aten.conv3d.default(%x, %w)
    return (%y))"));
}

TEST_CASE("a layer's weight and bias are found and changed", "[annotate][matrix_layers]") {
  ObservedGraph observed = observe_layers(kTwoLinears, int8_activation(), channel_weight(127));
  std::vector<MatrixLayer> layers = layers_of(observed);
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].name() == "first");
  CHECK(layers[0].float_input->name() == "x");
  CHECK(layers[0].input != layers[0].float_input);
  CHECK(layers[0].owns_bias);
  CHECK(layers[1].bias == nullptr);
  CHECK_FALSE(bias_of(layers[1]).defined());
  set_weight(layers[1], at::full({4, 6}, 2.0f));
  set_bias(layers[0], at::full({6}, 3.0f));
  CHECK(at::equal(weight_of(layers_of(observed)[1]), at::full({4, 6}, 2.0f)));
  CHECK(at::equal(bias_of(layers_of(observed)[0]), at::full({6}, 3.0f)));
}

TEST_CASE("weights that cannot be changed alone are left out with a reason",
          "[annotate][matrix_layers]") {
  CHECK(refusal_of(R"(graph(%w = param "w": f32[8,8], %x: f32[5,8]):
    %a: f32[5,8] = aten.linear.default(%x, %w)
    %b: f32[5,8] = aten.linear.default(%a, %w)
    return (%b))") ==
        "test: 2 layers left out, --report FILE.json lists them; the first %a: its weight is used "
        "by several ops; it is not changed");
  CHECK(refusal_of(R"(graph(%w = param "w": f32[8,4], %x: f32[5,8], %r: f32[5,4]):
    %y: f32[5,4] = aten.addmm.default(%r, %x, %w)
    return (%y))") ==
        "test: left out %y: its bias is not a constant with one number per channel; its weight is "
        "not changed");
  CHECK(refusal_of(R"(graph(%b = param "b": f32[4], %w = param "w": f32[8,4], %x: f32[5,8]):
    %y: f32[5,4] = aten.addmm.default(%b, %x, %w, alpha=2.0)
    return (%y))") ==
        "test: left out %y: the op has factors alpha or beta; its weight is not changed");
}

TEST_CASE(
    "a walk gives each layer the float output and the input that quantized layers before it make",
    "[annotate][matrix_layers]") {
  ObservedGraph observed = observe_layers(kTwoLinears, int8_activation(), channel_weight(127));
  const Batches batches = correlated_batches(observed.graph, 1, 3);
  calibrate(observed, batches);
  const Graph before = without_points(observed);
  LayerWalk walk(observed, layers_of(observed), source_of(batches), "test");
  CHECK(walk.batches() == 3);
  REQUIRE(walk.next());
  // The input is on the grid of its observer.
  const QParams qparams =
      observed.observers[static_cast<size_t>(group_of(*walk.layer().input->producer()))]
          ->calculate_qparams();
  const at::Tensor steps = walk.samples().at(1).quantized_input / qparams.scale.at(0);
  CHECK(at::allclose(steps, steps.round(), 0, 1e-3));
  walk.change_weight(at::zeros_like(weight_of(walk.layer())));
  walk.change_bias(at::full({6}, 1.0f));
  REQUIRE(walk.next());
  CHECK(walk.index() == 1);
  const at::Tensor input = walk.samples().at(2).quantized_input;
  CHECK(at::allclose(input, at::full_like(input, 1.0f), 0, 0.05));  // relu of the bias alone
  CHECK(at::allclose(walk.samples().at(2).float_output,
                     Interpreter(before).run(batches[2]).at(0).toTensor(), 1e-5, 1e-5));
  CHECK_FALSE(walk.next());
}

TEST_CASE("a walk takes as many batches as fit into its memory", "[annotate][matrix_layers]") {
  ObservedGraph observed = observe_layers(kTwoLinears, std::nullopt, channel_weight(127));
  const Batches batches = correlated_batches(observed.graph, 1, 9);
  calibrate(observed, batches);
  LayerWalk walk(observed, layers_of(observed), source_of(batches), "test", {.max_bytes = 2048});
  // the second layer's input and output, in both programs; weights and views need no memory
  CHECK(walk.batches() == 2048 / (2 * (5 * 6 + 5 * 4) * 4));
  CHECK(walk.left_data_out());
}

TEST_CASE("a walk needs data and calibration", "[annotate][matrix_layers][error]") {
  ObservedGraph observed = observe_layers(kTwoLinears, int8_activation(), channel_weight(127));
  const Batches none;
  CHECK_THROWS_WITH(LayerWalk(observed, layers_of(observed), source_of(none), "test"),
                    "test: data: no batches, got 0, want at least 1");
  const Batches batches = correlated_batches(observed.graph, 1, 1);
  CHECK_THROWS_WITH(LayerWalk(observed, layers_of(observed), source_of(batches), "test"),
                    "convert: %v: the observer of the weight saw no data; calibrate first");
}

}  // namespace octet::test_matrix_layers

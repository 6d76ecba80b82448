// Ranges below the least scale of their spec keep their integers.
#include <cmath>

#include <ATen/ops/full.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/flow_helpers.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observed/scale_floor.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/verify.h"
#include "core/text/text.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_scale_floor {
namespace {

using Catch::Contains;

constexpr double kEps = kBackendEps;

// Linears and products, int8, with the backends' least scale.
class Floored : public Quantizer {
 public:
  std::string name() const override { return "floored"; }
  void annotate(Graph& graph, Annotations& annotations, Report&) override {
    QuantizationSpec act{
        .dtype = DType::kInt8,
        .observer_or_fake_quant_ctr = {.name = "histogram", .eps = kEps, .affine = {}},
        .quant_min = -128,
        .quant_max = 127,
        .qscheme = QScheme::kPerTensorAffine,
        .ch_axis = {}};
    QuantizationSpec weight{
        .dtype = DType::kInt8,
        .observer_or_fake_quant_ctr = {.name = "per_channel_min_max", .eps = kEps, .affine = {}},
        .quant_min = -127,
        .quant_max = 127,
        .qscheme = QScheme::kPerChannelSymmetric,
        .ch_axis = 0};
    for (Node* node : graph.nodes()) {
      const bool is_linear = node->is("aten.linear");
      if (!is_linear && !node->is("aten.mul")) continue;
      QuantizationAnnotation& annotation = annotations[node];
      annotation.set_input(node->inputs().at(0), act);
      annotation.set_input(node->inputs().at(1), is_linear ? weight : act);
      annotation.output_qspec = act;
      if (least_scale) annotation.input_limits.emplace_back(node->inputs().at(1), limits());
    }
  }
  QuantLimits limits() const {
    QuantLimits limits;
    limits.scale_min_lower_bound = *least_scale;
    limits.place = "npu";
    return limits;
  }
  std::optional<double> least_scale;
};

constexpr const char* kLayerScale = R"(
graph(%w = param "w": f32[8,8], %gamma = param "gamma": f32[8], %x: f32[16,8]):
  %l: f32[16,8] = aten.linear.default(%x, %w)
  %y: f32[16,8] = aten.mul.Tensor(%l, %gamma)
  return (%y))";

Graph layer_scale(double gamma) {
  Graph graph = parse_graph(kLayerScale);
  test::fill_floats(graph);
  graph.constants.at("gamma").tensor = from_aten(at::full({8}, gamma, at::dtype(at::kFloat)));
  return graph;
}

Graph quantize(Graph graph, Floored quantizer, Compat compat, Report& report) {
  PrepareOptions options;
  options.compat = compat;
  ObservedGraph observed = prepare_pt2e(std::move(graph), quantizer, report, options);
  calibrate(observed, {test::random_inputs(observed.graph, 5)});
  ConvertOptions convert_options;
  convert_options.compat = compat;
  return convert_pt2e(std::move(observed), convert_options, report);
}

double sqnr(const Graph& original, const Graph& quantized) {
  const std::vector<c10::IValue> inputs = test::random_inputs(original, 5);
  const at::Tensor want = Interpreter(original).run(inputs).at(0).toTensor().to(at::kDouble);
  const at::Tensor got = Interpreter(quantized).run(inputs).at(0).toTensor().to(at::kDouble);
  return 10 * std::log10(want.square().sum().item<double>() /
                         (want - got).square().sum().item<double>());
}

// The literal scales of all dequantize ops, in order.
std::vector<double> scales_of(const Graph& graph) {
  std::vector<double> scales;
  for (const Node* node : graph.nodes())
    if (is_dequantize(node) && find_quantization(node)->has_numbers())
      scales.push_back(find_quantization(node)->scale_number());
  return scales;
}

std::string all_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("scale floor: a factor of 1e-6 keeps its integers, and the report says so",
          "[annotate][scale_floor]") {
  const Graph original = layer_scale(1e-6);
  Report report;
  const Graph quantized = quantize(layer_scale(1e-6), {}, Compat::kNone, report);
  CHECK(sqnr(original, quantized) > 30);
  CHECK_THAT(all_of(report.notes()), Contains("scale: %gamma, %y have ranges below the least "
                                              "scale of their specs, and got finer ones"));
  CHECK_THAT(all_of(report.details()),
             Contains("scale: %gamma: 1 of 1 ranges below the least scale, 0.000244141: finer"));
}

TEST_CASE("scale floor: torchao's stays, and the report says what becomes zero",
          "[annotate][scale_floor]") {
  Report report;
  const Graph quantized = quantize(layer_scale(1e-6), {}, Compat::kTorchao, report);
  CHECK(scales_of(quantized).back() == kEps);
  CHECK(Interpreter(quantized)
            .run(test::random_inputs(quantized, 5))
            .at(0)
            .toTensor()
            .eq(0)
            .all()
            .item<bool>());
  CHECK_THAT(all_of(report.notes()), Contains("scale: %gamma, %y have ranges below the least "
                                              "scale that torchao asks for: they become zero"));
}

TEST_CASE("scale floor: tensors with half of their integers or more are quantized as by torchao",
          "[annotate][scale_floor]") {
  // 0.04 / 2^-12 = 164 of 255 steps
  for (const double gamma : {1.0, 0.04}) {
    Report report, compat;
    CHECK(to_text(quantize(layer_scale(gamma), {}, Compat::kNone, report)) ==
          to_text(quantize(layer_scale(gamma), {}, Compat::kTorchao, compat)));
    CHECK(report.notes().empty());
  }
}

TEST_CASE("scale floor: a backend's constraint is the finest scale", "[annotate][scale_floor]") {
  Floored quantizer;
  quantizer.least_scale = 1e-5;
  Report report;
  ObservedGraph observed = prepare_pt2e(layer_scale(1e-6), quantizer, report);
  calibrate(observed, {test::random_inputs(observed.graph, 5)});
  const Graph quantized = convert_pt2e(std::move(observed), {}, report);
  const std::vector<double> scales = scales_of(quantized);
  CHECK(std::count(scales.begin(), scales.end(), static_cast<double>(1e-5f)) == 1);
  CHECK_THAT(all_of(report.notes()), Contains("scale: %gamma have ranges below the least scale "
                                              "that a constraint leaves"));
}

TEST_CASE("scale floor: a dead channel with a bias keeps a bias that fits into int32",
          "[annotate][scale_floor]") {
  Graph graph = parse_graph(R"(
graph(%w = param "w": f32[4,8], %b = param "b": f32[4], %x: f32[16,8]):
  %l: f32[16,4] = aten.linear.default(%x, %w, %b)
  return (%l))");
  test::fill_floats(graph);
  float* w = graph.constants.at("w").tensor.data<float>();
  for (int i = 0; i < 8; ++i) w[i] *= 1e-12f;   // dead, with a bias
  for (int i = 8; i < 16; ++i) w[i] *= 1e-12f;  // dead, without
  for (int i = 16; i < 24; ++i) w[i] *= 1e-4f;  // small
  float* b = graph.constants.at("b").tensor.data<float>();
  b[0] = 0.75f;
  b[1] = 0;
  b[2] = 1e-4f;
  Floored quantizer;
  Report report;
  ObservedGraph observed = prepare_pt2e(std::move(graph), quantizer, report);
  calibrate(observed, {test::random_inputs(observed.graph, 5)});
  CHECK(fit_weights_to_biases(observed) == 1);
  CHECK(fit_weights_to_biases(observed) == 0);
  const std::vector<Node*> points = observer_nodes(observed.graph);
  const auto qparams_of = [&](std::string_view name) {
    for (const Node* point : points)
      if (observed_value(*point)->name() == name)
        return observed.observers.at(static_cast<size_t>(group_of(*point)))->calculate_qparams();
    throw std::runtime_error("no such value");
  };
  const double x = qparams_of("x").scale.at(0);
  const std::vector<float> scales = qparams_of("w").scale;
  CHECK(0.75 / (x * scales[0]) == Approx(1 << 30));
  CHECK(scales[1] < 1e-13f);
  CHECK(scales[2] > 1e-7f);
  CHECK(scales[2] < 1e-5f);
  CHECK(scales[3] > kEps);
  // nothing is left of the first channel, and it would have no effect
  report_scale_floors(observed, Compat::kNone, report);
  CHECK_THAT(all_of(report.notes()),
             Contains("%w have ranges below the least scale of their specs"));
  CHECK_THAT(all_of(report.notes()), !Contains("become zero"));
}

TEST_CASE("scale floor: a tensor of zeros keeps the least scale", "[annotate][scale_floor]") {
  Report report;
  const Graph quantized = quantize(layer_scale(0), {}, Compat::kNone, report);
  CHECK(scales_of(quantized).back() == kEps);
  CHECK(report.notes().empty());
}

namespace {

// Additions and concatenations too, whose operands share the result's scale.
class Summed : public Floored {
 public:
  void annotate(Graph& graph, Annotations& annotations, Report& report) override {
    Floored::annotate(graph, annotations, report);
    for (Node* node : graph.nodes()) {
      if (!node->is("aten.add") && !node->is("aten.cat")) continue;
      QuantizationAnnotation& annotation = annotations[node];
      const std::vector<Value*> inputs = node->inputs();
      const QuantizationSpec act{
          .dtype = DType::kInt8,
          .observer_or_fake_quant_ctr = {.name = "min_max", .eps = kEps, .affine = {}},
          .quant_min = -128,
          .quant_max = 127,
          .qscheme = QScheme::kPerTensorAffine,
          .ch_axis = {}};
      const SpecVariant shared = SharedQuantizationSpec{Edge{inputs[0], node}};
      annotation.set_input(inputs[0], act);
      annotation.set_input(inputs[1], node->is("aten.cat") ? shared : SpecVariant(act));
      annotation.output_qspec = node->is("aten.cat") ? shared : SpecVariant(act);
    }
  }
};

constexpr const char* kResidual = R"(
graph(%w = param "w": f32[8,8], %gamma = param "gamma": f32[8], %cls = param "cls": f32[1,8],
      %x: f32[15,8]):
  %e: f32[1,8] = aten.expand.default(%cls, [1, 8])
  %t: f32[16,8] = aten.cat.default([%e, %x])
  %l: f32[16,8] = aten.linear.default(%t, %w)
  %m: f32[16,8] = aten.mul.Tensor(%l, %gamma)
  %y: f32[16,8] = aten.add.Tensor(%t, %m)
  %z: f32[16,8] = aten.linear.default(%y, %w)
  return (%y, %z))";

Graph quantized_sums(Graph graph, Compat compat, Report& report) {
  Summed quantizer;
  PrepareOptions options;
  options.compat = compat;
  ObservedGraph observed = prepare_pt2e(std::move(graph), quantizer, report, options);
  calibrate(observed, {test::random_inputs(observed.graph, 5)});
  return convert_pt2e(std::move(observed), {.compat = compat}, report);
}

Graph quantized_residual(double gamma, double cls, Compat compat, Report& report) {
  Graph graph = parse_graph(kResidual);
  test::fill_floats(graph);
  graph.constants.at("gamma").tensor = from_aten(at::full({8}, gamma, at::dtype(at::kFloat)));
  graph.constants.at("cls").tensor = from_aten(at::full({1, 8}, cls, at::dtype(at::kFloat)));
  return quantized_sums(std::move(graph), compat, report);
}

}  // namespace

TEST_CASE("vanishing operands: the sum and the concatenation stay float, what reads them does not",
          "[annotate][scale_floor]") {
  Report report;
  const Graph graph = quantized_residual(1e-6, 1e-6, Compat::kNone, report);
  verify(graph);
  std::vector<std::string> left;
  for (const ReportEntry& entry : report.entries())
    if (entry.node == "t" || entry.node == "y") left.push_back(entry.node + ": " + entry.reason);
  REQUIRE(left.size() == 2);
  CHECK_THAT(left[0], Contains("t: its operand %e, at most 1e-06, would vanish in steps of 0.0"));
  CHECK_THAT(left[1], Contains("y: its operand %m, at most ") && Contains("would vanish"));
  for (const char* name : {"t", "y"}) {
    const std::vector<Value*> inputs = graph.find_node(name)->inputs();
    CHECK(std::none_of(inputs.begin(), inputs.end(),
                       [](const Value* value) { return is_dequantized(value); }));
  }
  CHECK(is_dequantized(graph.find_node("z")->inputs().at(0)));
  CHECK(is_dequantized(graph.find_node("l")->inputs().at(0)));
  const at::Tensor y = Interpreter(graph).run(test::random_inputs(graph, 5)).at(0).toTensor();
  CHECK(y[0].abs().max().item<double>() > 5e-7);
}

TEST_CASE("vanishing operands: torchao keeps them, and so does what has half a step",
          "[annotate][scale_floor]") {
  Report report, other;
  const Graph compat = quantized_residual(1e-6, 1e-6, Compat::kTorchao, report);
  CHECK(is_dequantized(compat.find_node("y")->inputs().at(0)));
  const Graph plain = quantized_residual(1, 1, Compat::kNone, other);
  CHECK(is_dequantized(plain.find_node("y")->inputs().at(0)));
  CHECK(is_dequantized(plain.find_node("t")->inputs().at(0)));
}

TEST_CASE("vanishing operands: a sum with a mask in both operands stays float",
          "[annotate][scale_floor]") {
  for (const double mask : {-1e30, -1e3}) {
    INFO(mask);
    Graph graph = parse_graph(R"(
graph(%w = param "w": f32[8,8], %mask = param "mask": f32[8], %x: f32[4,8]):
  %s: f32[4,8] = aten.minimum.default(%x, %mask)
  %y: f32[4,8] = aten.add.Tensor(%s, %mask)
  %z: f32[4,8] = aten.softmax.int(%y, -1)
  return (%z))");
    test::fill_floats(graph);
    graph.constants.at("mask").tensor = from_aten(at::full({8}, mask, at::dtype(at::kFloat)));
    Report report;
    const Graph quantized = quantized_sums(std::move(graph), Compat::kNone, report);
    const bool is_left = mask < -1e15;
    CHECK(is_dequantized(quantized.find_node("y")->inputs().at(0)) != is_left);
    const std::vector<ReportEntry>& entries = report.entries();
    CHECK(std::any_of(entries.begin(), entries.end(), [](const ReportEntry& entry) {
            return entry.node == "y" && entry.reason.starts_with("it is a mask of up to 2e+30");
          }) == is_left);
  }
}

}  // namespace octet::test_scale_floor

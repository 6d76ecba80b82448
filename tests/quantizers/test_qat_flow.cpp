// Training as the quantizers specify it: groups and tokens, parts that are only observed, and
// initial ranges from a calibration.
#include <map>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <torch/optim/sgd.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/observed/observer_state.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/prepare/prepare.h"
#include "annotate/training/initial_ranges.h"
#include "annotate/training/qat_model.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "quantizers/registry.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_qat_flow {
namespace {

QuantizerOptions training() {
  QuantizerOptions options;
  options.is_qat = true;
  return options;
}

// Parameters become normal numbers and train, variances positive.
Graph filled(const char* text) {
  Graph graph = parse_graph(text);
  at::manual_seed(7);
  for (auto& [fqn, constant] : graph.constants) {
    at::Tensor values = at::randn(constant.tensor.shape());
    if (fqn.ends_with("running_var")) values.abs_().add_(0.5);
    constant.tensor = from_aten(values);
    constant.requires_grad = constant.is_parameter;
  }
  return graph;
}

// Trains a few steps toward the target; returns the first and the last loss.
std::pair<double, double> train(QatModel& model, const at::Tensor& x, const at::Tensor& target,
                                double rate, int steps) {
  torch::optim::SGD optimizer(model.parameters(), rate);
  model.train();
  double first = 0;
  double last = 0;
  for (int step = 0; step < steps; ++step) {
    const at::Tensor loss = at::mse_loss(model.forward({x})[0].toTensor(), target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  return {first, last};
}

at::Tensor evaluate(QatModel& model, const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  model.eval();
  model.enable_observers(false);
  return model.forward({x})[0].toTensor();
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

constexpr const char* kTwoLinears =
    R"(graph(%x: f32[6,64], %w = param "w": f32[32,64], %u = param "u": f32[4,32]):
    %h: f32[6,32] = aten.linear.default(%x, %w)
    %y: f32[6,4] = aten.linear.default(%h, %u)
    return (%y))";

constexpr const char* kConvBn =
    R"(graph(%x: f32[2,3,6,6], %w = param "conv.weight": f32[4,3,3,3], %g = param "bn.weight": f32[4],
      %h = param "bn.bias": f32[4], %m = buffer "bn.running_mean": f32[4], %v = buffer "bn.running_var": f32[4], %f = param "fc.weight": f32[5,64]):
    %c: f32[2,4,4,4] = aten.conv2d.default(%x, %w)
    %y: f32[2,4,4,4] = aten.batch_norm.default(%c, %g, %h, %m, %v, MODE, 0.1, 1e-05, False)
    %l: f32[2,64] = aten.flatten.using_ints(%y, 1)
    %z: f32[2,5] = aten.linear.default(%l, %f)
    return (%z))";

std::string with_mode(std::string text, const char* mode) {
  return text.replace(text.find("MODE"), 4, mode);
}

// The ranges of a calibration in evaluation mode.
std::string calibrated_state(const char* text, const QuantizerOptions& options = {}) {
  Report report;
  ObservedGraph observed = prepare_pt2e(filled(with_mode(text, "False").c_str()),
                                        *make_quantizer("xnnpack", options), report);
  at::manual_seed(1);
  bool is_done = false;
  calibrate(observed, [&]() -> std::optional<std::vector<c10::IValue>> {
    if (is_done) return std::nullopt;
    is_done = true;
    return std::vector<c10::IValue>{at::randn({2, 3, 6, 6})};
  });
  return observer_state_to_json(observed);
}

}  // namespace

TEST_CASE(
    "training: a linear with groups of 4 bits and tokens is trained, and converts as after "
    "calibration",
    "[quantizers][qat]") {
  QuantizerOptions options = training();
  options.is_dynamic = true;
  options.weight_bits = 4;
  Report report;
  QatModel model(
      prepare_qat_pt2e(filled(kTwoLinears), *make_quantizer("xnnpack", options), report));
  at::manual_seed(0);
  const at::Tensor x = at::randn({6, 64});
  const auto [first, last] = train(model, x, at::randn({6, 4}), 0.001, 40);
  CHECK(last < first / 4);
  const at::Tensor evaluated = evaluate(model, x);
  const Graph converted = convert_pt2e(std::move(model).finish(), {}, report);
  CHECK(converted.nodes_of("torchao.choose_qparams_affine").size() == 2);
  CHECK(converted.nodes_of("torchao.dequantize_affine").size() == 4);
  CHECK(converted.nodes_of("aten.linear").size() == 2);
  CHECK(distance(Interpreter(converted).run({x})[0].toTensor(), evaluated) <
        1e-3 * evaluated.abs().max().item<double>());
}

TEST_CASE(
    "training: a layer that is observed only stays float in training, and is quantized with the "
    "ones that were trained",
    "[quantizers][qat]") {
  Report report;
  const std::unique_ptr<Quantizer> quantizer = parse_quantizer(
      R"({"base": "xnnpack", "global": {}, "call_index": {"": {"aten.linear.default": {"1": {"is_qat": false}}}}})",
      "q.json", training());
  QatModel model(prepare_qat_pt2e(filled(kTwoLinears), *quantizer, report));
  int fake_quants = 0;
  int observers = 0;
  for (const std::shared_ptr<Observer>& observer : model.prepared().observers)
    ++(dynamic_cast<const FakeQuantize*>(observer.get()) != nullptr ? fake_quants : observers);
  CHECK(fake_quants > 0);
  CHECK(observers > 0);
  at::manual_seed(0);
  const at::Tensor x = at::randn({6, 64});
  // close enough for the ranges that the observers see during training
  const at::Tensor target = model.forward({x})[0].toTensor().detach() * 0.8;
  const auto [first, last] = train(model, x, target, 0.001, 30);
  CHECK(last < first / 2);
  const at::Tensor evaluated = evaluate(model, x);
  const Graph converted = convert_pt2e(std::move(model).finish(), {}, report);
  for (const Node* linear : converted.nodes_of("aten.linear"))
    for (const Value* input : linear->inputs())
      CHECK(input->producer()->target().starts_with("quantized_decomposed.dequantize"));
  const double off = distance(Interpreter(converted).run({x})[0].toTensor(), evaluated);
  CHECK(off > 0);  // the second layer was float until now
  CHECK(off < 0.1 * evaluated.abs().max().item<double>());
}

TEST_CASE("training: it begins with the ranges of a calibration, whose batch norms were folded",
          "[quantizers][qat]") {
  const std::string state = calibrated_state(kConvBn);
  Report report;
  ObservedGraph training_graph = prepare_qat_pt2e(filled(with_mode(kConvBn, "True").c_str()),
                                                  *make_quantizer("xnnpack", training()), report);
  const InitialRanges ranges = set_initial_ranges(training_graph, state, "s.json");
  CHECK(ranges.others == std::vector<std::string>());
  CHECK(ranges.taken == static_cast<int>(training_graph.observers.size()));
  ObservedGraph calibrated = prepare_pt2e(filled(with_mode(kConvBn, "False").c_str()),
                                          *make_quantizer("xnnpack", {}), report);
  observer_state_from_json(calibrated, state, "s.json");
  std::map<std::string, QParams> wanted;
  for (const Node* point : observer_nodes(calibrated.graph))
    wanted[observed_value(*point)->name()] =
        calibrated.observers.at(static_cast<size_t>(group_of(*point)))->calculate_qparams();
  for (const Node* point : observer_nodes(training_graph.graph)) {
    const std::string name = observed_value(*point)->name();
    const auto found = wanted.find(name == "y" ? "c" : name);
    if (found == wanted.end()) continue;  // the scaled weight
    INFO(name);
    const FakeQuantize& fake_quant = dynamic_cast<const FakeQuantize&>(
        *training_graph.observers.at(static_cast<size_t>(group_of(*point))));
    CHECK(fake_quant.scale()[0].item<double>() == Approx(found->second.scale.at(0)).epsilon(0.02));
    CHECK(fake_quant.has_data());
  }
  QatModel model(std::move(training_graph));
  model.train();
  model.enable_observers(false);  // ranges are there before the first batch
  model.forward({at::randn({2, 3, 6, 6})})[0].toTensor().sum().backward();
}

TEST_CASE("training: states that fit nothing are refused", "[quantizers][qat]") {
  Report report;
  ObservedGraph observed =
      prepare_qat_pt2e(filled(kTwoLinears), *make_quantizer("xnnpack", training()), report);
  CHECK_THROWS_WITH(set_initial_ranges(observed, R"({"format": 2, "groups": []})", "s.json"),
                    "state: s.json: none of its groups observed what the training rounds; "
                    "calibrate the same model with the same quantizer");
  CHECK_THROWS_WITH(set_initial_ranges(observed, "{", "s.json"),
                    Catch::StartsWith("state: s.json: no state of observers: "));
}

TEST_CASE("training: bodies of control flow stay float, and the report says so",
          "[quantizers][qat]") {
  Report report;
  QatModel model(prepare_qat_pt2e(filled(R"(graph(%w = param "w": f32[2,2], %p: b8[], %x: f32[1,2]):
  %z: f32[1,2] = aten.linear.default(%x, %w)
  %y: f32[1,2] = higher_order.cond(%p,
    graph "yes" (%ax: f32[1,2], %aw: f32[2,2]):
      %a: f32[1,2] = aten.linear.default(%ax, %aw)
      return (%a),
    graph "no" (%bx: f32[1,2], %bw: f32[2,2]):
      %r: f32[1,2] = aten.relu.default(%bx)
      return (%r), [%z, %w]) as cond
  return (%y))"),
                                  *make_quantizer("xnnpack", training()), report));
  CHECK(report.notes() ==
        std::vector<std::string>{"prepare: the body yes of %cond stays float: control flow is not "
                                 "trained with fake quantization",
                                 "prepare: the body no of %cond stays float: control flow is not "
                                 "trained with fake quantization"});
  for (const bool which : {true, false}) {
    model.forward({at::full({}, which, at::kBool), at::randn({1, 2})})[0]
        .toTensor()
        .sum()
        .backward();
    CHECK(model.parameters().at(0).grad().abs().sum().item<double>() > 0);
  }
  const Graph converted = convert_pt2e(std::move(model).finish(), {}, report);
  CHECK(converted.nodes_of("quantized_decomposed.dequantize_per_tensor").size() +
            converted.nodes_of("quantized_decomposed.dequantize_per_channel").size() ==
        3);
}

}  // namespace octet::test_qat_flow

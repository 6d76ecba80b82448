// Training with fake quantization: the fused form of convolution and batch norm, gradients,
// switches, and conversion. tests/quantizers/golden/test_golden_qat.cpp compares with torchao.
#include <ATen/ATen.h>
#include <torch/optim/sgd.h>

#include "annotate/convert/convert.h"
#include "annotate/flow_helpers.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/prepare/prepare.h"
#include "annotate/training/qat_conv_bn.h"
#include "annotate/training/qat_model.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/passes/verify.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_qat {
namespace {

using Json = nlohmann::ordered_json;
using test::count_of;

// A fake-quant spec: int8 per tensor.
Json fake_spec(const char* inner = "MovingAverageMinMaxObserver") {
  Json spec = test::act_spec();
  spec["observer"] = "FakeQuantize";
  spec["observer_args"] = {{"observer", inner}};
  return spec;
}

// `op` has fake-quants on its input and weight.
Json rules_for(const std::string& op) {
  return Json::array({{{"target", op},
                       {"inputs", {{"0", fake_spec()}, {"1", fake_spec()}}},
                       {"output", nullptr}}});
}

const char* const kConvBn =
    R"(graph(%x: f32[2,3,6,6], %w = param "conv.weight": f32[4,3,3,3], %b = param "conv.bias": f32[4],
      %g = param "bn.weight": f32[4], %h = param "bn.bias": f32[4], %m = buffer "bn.running_mean": f32[4],
      %v = buffer "bn.running_var": f32[4], %n = buffer "bn.num_batches_tracked": i64[]):
    %c: f32[2,4,4,4] = aten.conv2d.default(%x, %w, %b)
    %k: i64[] = aten.add_.Tensor(%n, 1)
    %y: f32[2,4,4,4] = aten.batch_norm.default(%c, %g, %h, %m, %v, True, 0.03, 0.001, False)
    %r: f32[2,4,4,4] = aten.relu.default(%y)
    return (%r))";

Graph filled(const char* text) {
  Graph graph = parse_graph(text);
  test::fill_floats(graph);
  for (auto& [fqn, constant] : graph.constants) {
    constant.requires_grad = constant.is_parameter;
    if (fqn.ends_with("running_var")) to_aten(constant.tensor).abs_().add_(0.5);
    if (fqn.ends_with("num_batches_tracked")) constant.tensor = Tensor::zeros(DType::kInt64, {});
  }
  return graph;
}

ObservedGraph prepared(const char* text, const std::string& op, Report& report,
                       const PrepareOptions& options = {}) {
  test::RuleQuantizer quantizer(rules_for(op));
  return prepare_qat_pt2e(filled(text), quantizer, report, options);
}

QatModel model_of(const char* text, const std::string& op) {
  Report report;
  return QatModel(prepared(text, op, report));
}

at::Tensor output_of(QatModel& model, uint64_t seed = 5) {
  return model.forward(test::random_inputs(model.prepared().graph, seed))[0].toTensor();
}

// The results of the float program, in the mode that its text says.
at::Tensor float_output(const char* text, uint64_t seed = 5) {
  const Graph graph = filled(text);
  return Interpreter(graph).run(test::random_inputs(graph, seed))[0].toTensor();
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / b.abs().max().item<double>();
}

// Without rounding the fused form computes what the pair computes, and after training it folds into
// one op.
void check_pair(const char* text, const std::string& op) {
  INFO(text);
  Report report;
  ObservedGraph observed = prepared(text, op, report);
  CHECK(count_of(observed.graph, "aten.div.Tensor") > 0);
  QatModel model(std::move(observed));
  model.enable_fake_quants(false);
  CHECK(distance(output_of(model), float_output(text)) < 1e-5);
  model.enable_fake_quants(true);
  model.train();
  for (uint64_t seed = 0; seed < 3; ++seed) output_of(model, seed).square().mean().backward();
  model.eval();
  model.enable_observers(false);
  const at::NoGradGuard no_grad;
  const at::Tensor evaluated = output_of(model);
  const Graph converted = convert_pt2e(std::move(model).finish(), {}, report);
  verify(converted);
  CHECK(count_of(converted, "aten.batch_norm.default") == 0);
  CHECK(count_of(converted, "aten.div.Tensor") == 0);
  CHECK(count_of(converted, "aten.add_.Tensor") == 0);
  CHECK(converted.constants.size() <= 2);  // the quantized weight and the bias
  const at::Tensor folded =
      Interpreter(converted).run(test::random_inputs(converted))[0].toTensor();
  CHECK(distance(folded, evaluated) < 0.02);
}

}  // namespace

TEST_CASE("qat: convolution, batch norm and relu are trained as one, with their own eps, and fold",
          "[annotate][qat]") {
  check_pair(kConvBn, "aten.conv2d.default");
}

TEST_CASE(
    "qat: batch norms without gamma and beta, padding by name, three dimensions, transposed, with "
    "groups, linear",
    "[annotate][qat]") {
  check_pair(
      R"(graph(%x: f32[2,3,6,6], %w = param "w": f32[4,3,3,3], %m = buffer "running_mean": f32[4], %v = buffer "running_var": f32[4]):
    %c: f32[2,4,6,6] = aten.conv2d.padding(%x, %w, None, [1, 1], "same")
    %y: f32[2,4,6,6] = aten.batch_norm.default(%c, None, None, %m, %v, True, 0.1, 1e-05, False)
    return (%y))",
      "aten.conv2d.padding");
  check_pair(
      R"(graph(%x: f32[2,3,4,4,4], %w = param "w": f32[4,3,2,2,2], %g = param "g": f32[4], %h = param "h": f32[4],
      %m = buffer "running_mean": f32[4], %v = buffer "running_var": f32[4]):
    %c: f32[2,4,3,3,3] = aten.conv3d.default(%x, %w)
    %y: f32[2,4,3,3,3] = aten.batch_norm.default(%c, %g, %h, %m, %v, True, 0.1, 0.01, False)
    return (%y))",
      "aten.conv3d.default");
  check_pair(
      R"(graph(%x: f32[2,3,5], %w = param "w": f32[3,4,3], %b = param "b": f32[4], %g = param "g": f32[4], %h = param "h": f32[4],
      %m = buffer "running_mean": f32[4], %v = buffer "running_var": f32[4]):
    %c: f32[2,4,7] = aten.conv_transpose1d.default(%x, %w, %b)
    %y: f32[2,4,7] = aten.batch_norm.default(%c, %g, %h, %m, %v, True, 0.1, 1e-05, False)
    return (%y))",
      "aten.conv_transpose1d.default");
  check_pair(
      R"(graph(%x: f32[2,4,5,5], %w = param "w": f32[4,3,2,2], %b = param "b": f32[6], %g = param "g": f32[6], %h = param "h": f32[6],
      %m = buffer "running_mean": f32[6], %v = buffer "running_var": f32[6]):
    %c: f32[2,6,6,6] = aten.conv_transpose2d.input(%x, %w, %b, [1, 1], [0, 0], [0, 0], 2)
    %y: f32[2,6,6,6] = aten.batch_norm.default(%c, %g, %h, %m, %v, True, 0.1, 1e-05, False)
    return (%y))",
      "aten.conv_transpose2d.input");
  check_pair(
      R"(graph(%x: f32[6,3], %w = param "w": f32[4,3], %b = param "b": f32[4], %g = param "g": f32[4], %h = param "h": f32[4],
      %m = buffer "running_mean": f32[4], %v = buffer "running_var": f32[4]):
    %c: f32[6,4] = aten.linear.default(%x, %w, %b)
    %y: f32[6,4] = aten.batch_norm.default(%c, %g, %h, %m, %v, True, 0.1, 1e-05, False)
    return (%y))",
      "aten.linear.default");
}

TEST_CASE("qat: literals of the batch norm stay as the model has them; torchao's are its defaults",
          "[annotate][qat]") {
  for (const bool is_compat : {false, true}) {
    Report report;
    const ObservedGraph observed =
        prepared(kConvBn, "aten.conv2d.default", report,
                 {.compat = is_compat ? Compat::kTorchao : Compat::kNone});
    const Node& norm = *observed.graph.nodes_of("aten.batch_norm").at(0);
    CHECK(norm.float_or("eps", 0) == (is_compat ? 1e-5 : 0.001));
    CHECK(norm.float_or("momentum", 0) == (is_compat ? 0.1 : 0.03));
  }
}

TEST_CASE("qat: a gamma of zero gives numbers and gradients", "[annotate][qat]") {
  QatModel model = model_of(kConvBn, "aten.conv2d.default");
  {
    const at::NoGradGuard no_grad;
    model.tensors().at("bn.weight").zero_();
  }
  model.train();
  output_of(model).sum().backward();
  for (const at::Tensor& parameter : model.parameters())
    CHECK(at::isfinite(parameter.grad()).all().item<bool>());
}

TEST_CASE("qat: what cannot be trained as one is said, with the reason", "[annotate][qat]") {
  const auto note_of = [](const char* text, const std::string& op, bool is_compat = false) {
    Report report;
    const ObservedGraph observed =
        prepared(text, op, report, {.compat = is_compat ? Compat::kTorchao : Compat::kNone});
    CHECK(count_of(observed.graph, "aten.div.Tensor") == 0);
    return report.notes().empty() ? std::string() : report.notes().front();
  };
  CHECK(
      note_of(
          R"(graph(%x: f32[2,4,5,5], %w = param "w": f32[4,2,1,1], %m = buffer "m": f32[4], %v = buffer "running_var": f32[4]):
    %c: f32[2,4,5,5] = aten.conv_transpose2d.input(%x, %w, None, [1, 1], [0, 0], [0, 0], 2)
    %y: f32[2,4,5,5] = aten.batch_norm.default(%c, None, None, %m, %v, True, 0.1, 1e-05, False)
    return (%y))",
          "aten.conv_transpose2d.input", true) ==
      "prepare: %y is not trained together with %c: the batch norm has no gamma and beta (compat "
      "torchao)");
  CHECK(
      note_of(
          R"(graph(%x: f32[2,3,5,5], %w = param "w": f32[4,3,1,1], %m = buffer "m": f32[4], %v = buffer "running_var": f32[4]):
    %c: f32[2,4,5,5] = aten.conv2d.default(%x, %w)
    %y: f32[2,4,5,5] = aten.batch_norm.default(%c, None, None, %m, %v, True, 0.1, 1e-05, False)
    return (%y, %c))",
          "aten.conv2d.default") ==
      "prepare: %y is not trained together with %c: other ops read %c too");
}

TEST_CASE(
    "qat: the fake-quants act in the forward pass: without them the first step's gradients are "
    "others",
    "[annotate][qat]") {
  const auto gradient = [](bool enabled) {
    QatModel model = model_of(kConvBn, "aten.conv2d.default");
    model.train();
    model.enable_fake_quants(enabled);
    output_of(model).square().mean().backward();
    return model.tensors().at("conv.weight").grad().clone();
  };
  const double off = distance(gradient(true), gradient(false));
  CHECK(off > 1e-4);
  CHECK(off < 0.2);
}

TEST_CASE("qat: observers follow the data until they are switched off", "[annotate][qat]") {
  QatModel model = model_of(kConvBn, "aten.conv2d.default");
  output_of(model, 1);
  const ObserverState first = model.prepared().observers.at(0)->state();
  model.enable_observers(false);
  output_of(model, 2);
  CHECK(model.prepared().observers.at(0)->state() == first);
  model.enable_observers(true);
  output_of(model, 3);
  CHECK_FALSE(model.prepared().observers.at(0)->state() == first);
}

TEST_CASE("qat: statistics of batch norms move in training and stay while frozen and in evaluation",
          "[annotate][qat]") {
  QatModel model = model_of(kConvBn, "aten.conv2d.default");
  const auto moves = [&](const std::function<void()>& set) {
    set();
    const at::Tensor before = model.tensors().at("bn.running_mean").clone();
    output_of(model);
    return !at::equal(before, model.tensors().at("bn.running_mean"));
  };
  CHECK(moves([&] { model.train(); }));
  CHECK_FALSE(moves([&] { model.freeze_batch_norm(); }));
  CHECK(moves([&] { model.freeze_batch_norm(false); }));
  CHECK_FALSE(moves([&] { model.eval(); }));
  CHECK(moves([&] { model.train(); }));
}

TEST_CASE("qat: dropout keeps its probability and drops in training alone", "[annotate][qat]") {
  QatModel model = model_of(R"(graph(%x: f32[50,40], %w = param "w": f32[40,40]):
    %l: f32[50,40] = aten.linear.default(%x, %w)
    %d: f32[50,40] = aten.dropout.default(%l, 0.1, True)
    return (%d))",
                            "aten.linear.default");
  const auto zeros = [&] { return output_of(model).eq(0).to(at::kDouble).mean().item<double>(); };
  model.train();
  CHECK(zeros() == Approx(0.1).margin(0.03));
  model.eval();
  CHECK(zeros() < 0.01);
}

TEST_CASE(
    "qat: a training loop as a user writes it lowers the loss, and the quantized program keeps it",
    "[annotate][qat]") {
  QatModel model =
      model_of(R"(graph(%x: f32[16,4], %w = param "w": f32[3,4], %b = param "b": f32[3]):
    %l: f32[16,3] = aten.linear.default(%x, %w, %b)
    return (%l))",
               "aten.linear.default");
  at::manual_seed(0);
  const at::Tensor x = at::randn({16, 4});
  // weights within the ranges that they begin with, which move slowly
  const at::Tensor target = x.narrow(1, 0, 3) / 2;
  torch::optim::SGD optimizer(model.parameters(), 0.2);
  model.train();
  double first = 0;
  double last = 0;
  for (int step = 0; step < 100; ++step) {
    const at::Tensor loss = at::mse_loss(model.forward({x})[0].toTensor(), target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  CHECK(last < first / 100);
  Report report;
  const Graph quantized = convert_pt2e(std::move(model).finish(), {}, report);
  CHECK(at::mse_loss(Interpreter(quantized).run({x})[0].toTensor(), target).item<double>() <
        first / 100);
}

TEST_CASE("qat: the converted program rounds with the scales of training; torchao's with others",
          "[annotate][qat]") {
  for (const bool is_compat : {false, true}) {
    Json weight = fake_spec();
    weight["observer"] = "FusedMovingAvgObsFakeQuantize";
    weight["qscheme"] = "per_tensor_symmetric";
    weight["quant_min"] = -8;
    weight["quant_max"] = 7;
    test::RuleQuantizer quantizer(Json::array(
        {{{"target", "aten.linear.default"}, {"inputs", {{"1", weight}}}, {"output", nullptr}}}));
    Report report;
    QatModel model(prepare_qat_pt2e(filled("graph(%x: f32[4,8], %w = param \"w\": f32[6,8]): %y: "
                                           "f32[4,6] = aten.linear.default(%x, %w) return (%y)"),
                                    quantizer, report));
    const at::NoGradGuard no_grad;
    const at::Tensor trained = output_of(model);
    const Graph converted =
        convert_pt2e(std::move(model).finish(),
                     {.compat = is_compat ? Compat::kTorchao : Compat::kNone}, report);
    const double off =
        distance(Interpreter(converted).run(test::random_inputs(converted))[0].toTensor(), trained);
    CHECK((is_compat ? off > 0.01 : off < 1e-5));
  }
}

TEST_CASE("qat: fake-quants have the axis of their spec; torchao's have axis 0",
          "[annotate][qat]") {
  for (const char* name : {"FakeQuantize", "FusedMovingAvgObsFakeQuantize"}) {
    Json weight = fake_spec("MovingAveragePerChannelMinMaxObserver");
    weight["observer"] = name;
    weight["qscheme"] = "per_channel_symmetric";
    weight["ch_axis"] = 1;
    for (const Compat compat : {Compat::kNone, Compat::kTorchao}) {
      test::RuleQuantizer quantizer(Json::array(
          {{{"target", "aten.linear.default"}, {"inputs", {{"1", weight}}}, {"output", nullptr}}}));
      Report report;
      QatModel model(prepare_qat_pt2e(filled("graph(%x: f32[4,8], %w = param \"w\": f32[6,8]): %y: "
                                             "f32[4,6] = aten.linear.default(%x, %w) return (%y)"),
                                      quantizer, report, {.compat = compat}));
      output_of(model);
      const Graph converted = convert_pt2e(std::move(model).finish(), {.compat = compat}, report);
      const Node& dequantize =
          *converted.nodes_of("quantized_decomposed.dequantize_per_channel").at(0);
      const int64_t axis = compat == Compat::kNone ? 1 : 0;
      CHECK(dequantize.int_or("axis", -1) == axis);
      CHECK(converted.find_constant(dequantize.find_input("scales"))->numel() ==
            (axis == 1 ? 8 : 6));
    }
  }
}

TEST_CASE("qat: tied parameters are one tensor and stay tied", "[annotate][qat]") {
  Graph graph = filled(R"(graph(%x: f32[2,4], %w = param "a": f32[4,4], %u = param "b": f32[4,4]):
    %l: f32[2,4] = aten.linear.default(%x, %w)
    %k: f32[2,4] = aten.linear.default(%l, %u)
    return (%k))");
  graph.constants.at("b").tensor = graph.constants.at("a").tensor;
  test::RuleQuantizer quantizer(rules_for("aten.linear.default"));
  Report report;
  QatModel model(prepare_qat_pt2e(std::move(graph), quantizer, report));
  CHECK(model.parameters().size() == 1);
  const ObservedGraph trained = std::move(model).finish();
  CHECK(trained.graph.constants.at("a").tensor.storage() ==
        trained.graph.constants.at("b").tensor.storage());
}

TEST_CASE("qat: an int32 bias whose scale is derived is folded and quantized", "[annotate][qat]") {
  Json rules = rules_for("aten.conv2d.default");
  const Json bias = Json::parse(
      R"({"kind": "derived", "from": [["$arg0", "$self"], ["$arg1", "$self"]], "fn": "prod_scale", "dtype": "int32",
      "quant_min": -2147483648, "quant_max": 2147483647, "qscheme": "per_tensor_symmetric"})");
  rules[0]["inputs"]["2"] = bias;
  test::RuleQuantizer quantizer(rules);
  Report report;
  QatModel model(prepare_qat_pt2e(filled(kConvBn), quantizer, report));
  model.train();
  output_of(model);
  model.eval();
  model.enable_observers(false);
  const at::NoGradGuard no_grad;
  const at::Tensor evaluated = output_of(model);
  const Graph converted = convert_pt2e(std::move(model).finish(), {}, report);
  CHECK(count_of(converted, "quantized_decomposed.dequantize_per_tensor.default") == 3);
  CHECK(distance(Interpreter(converted).run(test::random_inputs(converted))[0].toTensor(),
                 evaluated) < 0.02);
}

TEST_CASE("qat: wrong inputs, NaN and a program for another version are errors",
          "[annotate][qat]") {
  QatModel model = model_of(kConvBn, "aten.conv2d.default");
  CHECK_THROWS_WITH(model.forward({}),
                    "train: inputs: got 0 inputs, want 1; give them flattened, None included");
  CHECK_THROWS_WITH(model.forward({at::full({2, 3, 6, 6}, std::nan(""))}),
                    Catch::StartsWith("train: %x: ") && Catch::Contains("NaN"));
  CHECK_THROWS_WITH(
      model.forward({at::zeros({2, 3, 6})}),
      Catch::StartsWith("train: input 0 (%x): got f32[2, 3, 6], want f32[2, 3, 6, 6]"));
}

}  // namespace octet::test_qat

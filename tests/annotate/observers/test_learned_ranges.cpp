// Fake-quants with trained scales and with a scale for each block: their gradients, and how they
// are trained and converted in a program.
#include <cmath>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fake_quantize_learnable_per_tensor_affine.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/round.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <torch/optim/sgd.h>

#include "annotate/flow_helpers.h"
#include "annotate/observers/affine.h"
#include "annotate/observers/learnable_fake_quantize.h"
#include "annotate/observers/observer_cases.h"
#include "annotate/prepare/prepare.h"
#include "annotate/training/qat_model.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_learned_ranges {
namespace {

using test::named;

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

LearnableFakeQuantize& learnable(Observer& observer) {
  return dynamic_cast<LearnableFakeQuantize&>(observer);
}

ObserverArgs per_channel(const std::string& name, QScheme qscheme = QScheme::kPerChannelAffine) {
  ObserverArgs args = named(name);
  args.qscheme = qscheme;
  args.ch_axis = 1;
  return args;
}

// The expected gradients of sum(y * weight), from the formulas of the header, by element.
struct Gradients {
  at::Tensor x, scale, zero_point;
};

Gradients closed_form(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero_point,
                      const at::Tensor& weight) {
  const at::Tensor z = at::round(zero_point);
  const at::Tensor steps = at::round(x / scale) + z;
  const at::Tensor q = at::clamp(steps, -128, 127);
  const at::Tensor is_inside = steps.eq(q);
  return {is_inside.to(at::kFloat) * weight,
          at::where(is_inside, at::round(x / scale) - x / scale, q - z) * weight,
          at::where(is_inside, at::tensor(0.0f), -scale.expand_as(x)) * weight};
}

}  // namespace

TEST_CASE(
    "learned ranges: gradients per tensor are those of the paper, with zero points below and above "
    "zero",
    "[annotate][learned_ranges]") {
  at::manual_seed(1);
  for (const float zero_point : {-70.0f, -3.4f, 0.0f, 41.0f}) {
    for (const std::string name : {"learnable_fake_quantize", "lsq_fake_quantize"}) {
      INFO(name << " " << zero_point);
      const std::shared_ptr<Observer> observer = make_observer(named(name));
      LearnableFakeQuantize& module = learnable(*observer);
      module.forward(at::linspace(-1, 1, 9));
      module.enable_range_learning();
      module.set_qparams(at::tensor({0.05f}), at::tensor({zero_point}));
      const at::Tensor x = (at::randn({4, 30}) * 5).requires_grad_();
      const at::Tensor weight = at::randn({4, 30});
      (module.forward(x) * weight).sum().backward();
      const Gradients want =
          closed_form(x.detach(), at::tensor({0.05f}), at::tensor({zero_point}), weight);
      const double factor = name == "lsq_fake_quantize" ? 1 / std::sqrt(120.0 * 127) : 1;
      CHECK(distance(x.grad(), want.x) == 0);
      CHECK(module.parameters()[0].grad().item<double>() ==
            Approx(factor * want.scale.sum().item<double>()).epsilon(1e-3));
      CHECK(module.parameters()[1].grad().item<double>() ==
            Approx(factor * want.zero_point.sum().item<double>()).margin(1e-5).epsilon(1e-3));
    }
  }
}

TEST_CASE(
    "learned ranges: gradients per channel are those of the paper, N being the elements of a "
    "channel",
    "[annotate][learned_ranges]") {
  at::manual_seed(2);
  for (const std::string name : {"learnable_fake_quantize", "lsq_fake_quantize"}) {
    const std::shared_ptr<Observer> observer = make_observer(per_channel(name));
    LearnableFakeQuantize& module = learnable(*observer);
    module.enable_range_learning();
    module.forward(at::randn({2, 3, 5}));
    const at::Tensor scale = at::tensor({0.02f, 0.05f, 0.3f});
    const at::Tensor zero_point = at::tensor({-20.0f, 0.0f, 7.0f});
    module.set_qparams(scale, zero_point);
    const at::Tensor x = (at::randn({2, 3, 5}) * 5).requires_grad_();
    const at::Tensor weight = at::randn({2, 3, 5});
    (module.forward(x) * weight).sum().backward();
    const Gradients want =
        closed_form(x.detach(), scale.reshape({3, 1}), zero_point.reshape({3, 1}), weight);
    const double factor = name == "lsq_fake_quantize" ? 1 / std::sqrt(10.0 * 127) : 1;
    CHECK(distance(x.grad(), want.x) == 0);
    CHECK(distance(module.parameters()[0].grad(), want.scale.sum({0, 2}) * factor) < 1e-3);
    CHECK(distance(module.parameters()[1].grad(), want.zero_point.sum({0, 2}) * factor) < 1e-3);
  }
}

TEST_CASE(
    "learned ranges: output and gradients are those of torch's op where that rounds zero points "
    "right",
    "[annotate][learned_ranges]") {
  at::manual_seed(3);
  ObserverArgs args = named("learnable_fake_quantize");
  args.dtype = DType::kUInt8;
  const std::shared_ptr<Observer> observer = make_observer(args);
  LearnableFakeQuantize& module = learnable(*observer);
  module.forward(at::linspace(-1, 2, 9));
  module.enable_range_learning();
  const at::Tensor x = (at::randn({100}) * 2).requires_grad_();
  const at::Tensor other = x.detach().clone().requires_grad_();
  const at::Tensor scale = module.scale().detach().clone().requires_grad_();
  const at::Tensor zero_point = module.zero_point().detach().clone().requires_grad_();
  const at::Tensor y = module.forward(x);
  const at::Tensor want =
      at::_fake_quantize_learnable_per_tensor_affine(other, scale, zero_point, 0, 255, 1);
  CHECK(y.equal(want));
  y.square().sum().backward();
  want.square().sum().backward();
  CHECK(x.grad().equal(other.grad()));
  CHECK(module.parameters()[0].grad().item<double>() == Approx(scale.grad().item<double>()));
  CHECK(module.parameters()[1].grad().item<double>() == Approx(zero_point.grad().item<double>()));
}

TEST_CASE("learned ranges: switches hand the scale from the observer to the optimizer and back",
          "[annotate][learned_ranges]") {
  const std::shared_ptr<Observer> observer =
      make_observer(per_channel("lsq_fake_quantize", QScheme::kPerChannelSymmetric));
  LearnableFakeQuantize& module = learnable(*observer);
  const std::vector<at::Tensor> before = module.parameters();
  CHECK(before.size() == 1);  // symmetric: the zero point stays
  CHECK_FALSE(before[0].requires_grad());
  module.forward(at::linspace(-1, 1, 12).reshape({2, 6}));
  // the optimizer's tensor, though there are six scales now
  CHECK(module.parameters()[0].is_same(before[0]));
  CHECK(before[0].numel() == 6);
  module.enable_range_learning();
  CHECK(before[0].requires_grad());
  const ObserverState seen = module.state();
  module.forward(at::linspace(-9, 9, 12).reshape({2, 6})).sum().backward();
  CHECK(module.state() == seen);
  CHECK(before[0].grad().numel() == 6);
  {
    const at::NoGradGuard no_grad;
    before[0].fill_(-1);
  }
  module.forward(at::linspace(-9, 9, 12).reshape({2, 6}));
  // an optimizer may step below 0
  CHECK(before[0].min().item<float>() == static_cast<float>(kFloatEps));
  module.enable_observer();
  CHECK_FALSE(module.is_learning());
  module.forward(at::linspace(-9, 9, 12).reshape({2, 6}));
  CHECK(before[0].max().item<float>() > 0.005f);
}

TEST_CASE("learned ranges: one fake-quant at two places of a program has gradients, learned or not",
          "[annotate][learned_ranges]") {
  const std::shared_ptr<Observer> observer = make_observer(named("lsq_fake_quantize"));
  LearnableFakeQuantize& module = learnable(*observer);
  for (const bool is_learning : {false, true}) {
    if (is_learning) module.enable_range_learning();
    const at::Tensor x = at::linspace(-1, 1, 9).requires_grad_();
    (module.forward(x) + module.forward(3 * x)).sum().backward();
    CHECK(x.grad().min().item<float>() >= 0);
    CHECK(module.parameters()[0].grad().defined() == is_learning);
  }
}

TEST_CASE(
    "learned ranges: training a scale lowers the error of rounding, and convert takes the learned "
    "scale",
    "[annotate][learned_ranges]") {
  nlohmann::ordered_json weight = test::weight_spec();
  weight["observer"] = "lsq_fake_quantize(min_max)";
  weight["quant_min"] = -2;
  weight["quant_max"] = 1;
  test::RuleQuantizer quantizer(nlohmann::ordered_json::array(
      {{{"target", "aten.linear.default"}, {"inputs", {{"1", weight}}}, {"output", nullptr}}}));
  Graph graph = parse_graph(
      "graph(%x: f32[8,8], %w = param \"w\": f32[16,8]): %y: f32[8,16] = aten.linear.default(%x, "
      "%w) return (%y)");
  test::fill_floats(graph);
  Report report;
  QatModel model(prepare_qat_pt2e(std::move(graph), quantizer, report));
  const std::vector<c10::IValue> inputs = test::random_inputs(model.prepared().graph);
  const at::Tensor exact = [&] {
    model.enable_fake_quants(false);
    const at::Tensor result = model.forward(inputs)[0].toTensor().detach();
    model.enable_fake_quants(true);
    return result;
  }();
  CHECK(model.range_parameters().size() == 1);
  CHECK(model.parameters().size() == 2);  // and the weight, which does not change here
  torch::optim::SGD optimizer(model.range_parameters(), torch::optim::SGDOptions(1).momentum(0.9));
  model.train();
  model.enable_range_learning();
  std::vector<double> losses;
  for (int step = 0; step < 40; ++step) {
    const at::Tensor loss = at::mse_loss(model.forward(inputs)[0].toTensor(), exact);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  CHECK(losses.back() < 0.8 * losses.front());
  const float learned = model.range_parameters()[0].item<float>();
  const Graph converted = convert_pt2e(std::move(model).finish(), {}, report);
  const Node& dequantize = *converted.nodes_of("quantized_decomposed.dequantize_per_tensor").at(0);
  CHECK(dequantize.float_or("scale", 0) == Approx(learned));
}

TEST_CASE("learned ranges: float zero points, dynamic specs and granularities are refused",
          "[annotate][learned_ranges]") {
  ObserverArgs args = named("lsq_fake_quantize");
  args.is_dynamic = true;
  CHECK_THROWS_WITH(make_observer(args), Catch::Contains("dynamic"));
  CHECK_THROWS_WITH(
      make_observer(per_channel("lsq_fake_quantize", QScheme::kPerChannelAffineFloatQParams)),
      "prepare: lsq_fake_quantize: this fake-quant has no float zero points; use fake_quantize");
  CHECK_THROWS_WITH(make_observer(named("lsq_fake_quantize(placeholder)")),
                    Catch::Contains("a fake-quant needs a scale, which placeholder does not have"));
  args = named("lsq_fake_quantize");
  args.choice.affine = AffineOptions();
  CHECK_THROWS_WITH(make_observer(args), Catch::Contains("affine_fake_quantize"));
}

}  // namespace octet::test_learned_ranges

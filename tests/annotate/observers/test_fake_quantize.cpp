// Compares fake-quants with torchao's modules on the same data (make_observer_goldens.py), and runs
// them in a graph.
#include <cmath>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/observer_cases.h"
#include "annotate/prepare/prepare.h"
#include "core/base/error.h"
#include "core/text/text.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_fake_quantize {
namespace {

using Json = nlohmann::json;
using test::named;

std::vector<float> floats(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kFloat).contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

FakeQuantize& fake_quant(Observer& observer) { return dynamic_cast<FakeQuantize&>(observer); }

TEST_CASE("fake-quants: outputs, gradients, scales and zero points equal torchao's to the bit",
          "[annotate][fake_quantize]") {
  for (const Json& entry : test::read_goldens("fake_quantize_goldens.json")) {
    INFO(entry.at("name"));
    const std::shared_ptr<Observer> observer = make_observer(test::args_of(entry));
    FakeQuantize& module = fake_quant(*observer);
    std::vector<at::Tensor> batches = test::batches_of(entry);
    const Json& first = entry.at("batches").at(0);
    batches.push_back(test::make_batch(static_cast<uint32_t>(batches.size() + 1), entry.at("shape"),
                                       2 * first.at(0).get<float>(), first.at(1)));
    for (size_t i = 0; i < batches.size(); ++i) {
      if (i + 1 == batches.size()) module.disable_observer();
      const at::Tensor x = batches[i].requires_grad_();
      const at::Tensor y = module.forward(x);
      y.sum().backward();
      const Json& want = entry.at("want").at("steps").at(i);
      CHECK(floats(y) == want.at("output").get<std::vector<float>>());
      CHECK(floats(x.grad()) == want.at("gradient").get<std::vector<float>>());
      CHECK(floats(module.scale()) == want.at("scale").get<std::vector<float>>());
      CHECK(floats(module.zero_point()) == want.at("zero_point").get<std::vector<float>>());
    }
    CHECK(module.calculate_qparams().scale ==
          entry.at("want").at("scale").get<std::vector<float>>());
  }
}

TEST_CASE("fake-quants: fixed scale and zero point never move", "[annotate][fake_quantize]") {
  FixedQParamsFakeQuantize module({.dtype = DType::kUInt8,
                                   .scale = 0.25,
                                   .zero_point = 2,
                                   .quant_min = 0,
                                   .quant_max = 7,
                                   .qscheme = {}});
  const at::Tensor x = at::tensor({-3.0f, -0.3f, 0.125f, 0.6f, 9.0f});
  CHECK(floats(module.forward(x)) == std::vector<float>{-0.5f, -0.25f, 0.0f, 0.5f, 1.25f});
  CHECK(module.calculate_qparams().zero_point == std::vector<int64_t>{2});
}

TEST_CASE("fake-quants: the switches leave observing and quantizing out",
          "[annotate][fake_quantize]") {
  for (const std::string name : {"fake_quantize", "fused_moving_avg_obs_fake_quantize"}) {
    const std::shared_ptr<Observer> observer = make_observer(named(name));
    const at::Tensor x = at::linspace(-1, 1, 9);
    enable_fake_quants({observer}, false);
    CHECK(observer->forward(x).equal(x));
    CHECK(observer->has_data());
    const ObserverState seen = observer->state();
    enable_observers({observer}, false);
    enable_fake_quants({observer}, true);
    CHECK_FALSE(observer->forward(x.mul(4)).equal(x.mul(4)));
    CHECK(observer->state() == seen);
  }
}

TEST_CASE("fake-quants: before the first data the scale is 1, and an empty tensor changes nothing",
          "[annotate][fake_quantize]") {
  for (const std::string name : {"fake_quantize", "fused_moving_avg_obs_fake_quantize"}) {
    const std::shared_ptr<Observer> observer = make_observer(named(name));
    CHECK(observer->forward(at::empty({0, 3})).numel() == 0);
    CHECK_FALSE(observer->has_data());
    enable_observers({observer}, false);
    CHECK(floats(observer->forward(at::tensor({0.4f, 1.6f, 300.0f}))) ==
          std::vector<float>{0.0f, 2.0f, 127.0f});
  }
}

TEST_CASE("fake-quants: state put into a fresh one gives the same output",
          "[annotate][fake_quantize]") {
  for (const Json& entry : test::read_goldens("fake_quantize_goldens.json")) {
    INFO(entry.at("name"));
    const std::shared_ptr<Observer> first = make_observer(test::args_of(entry));
    for (const at::Tensor& batch : test::batches_of(entry)) first->forward(batch);
    const std::shared_ptr<Observer> second = make_observer(test::args_of(entry));
    second->set_state(first->state());
    CHECK(second->state() == first->state());
    const at::Tensor next = test::make_batch(99, entry.at("shape"), 1.5f, 0.5f);
    CHECK(second->forward(next).equal(first->forward(next)));
  }
}

TEST_CASE("fake-quants: NaN and unfit insides are refused", "[annotate][fake_quantize]") {
  for (const std::string name : {"fake_quantize", "fused_moving_avg_obs_fake_quantize"})
    CHECK_THROWS_WITH(make_observer(named(name))->forward(at::tensor({1.0f, NAN})),
                      Catch::Contains("NaN"));
  CHECK_THROWS_WITH(make_observer(named("fake_quantize(placeholder)")),
                    "prepare: fake_quantize(placeholder): a fake-quant needs a scale, which "
                    "placeholder does not have; use min_max");
  CHECK_THROWS_WITH(make_observer(named("fused_moving_avg_obs_fake_quantize(min_max)")),
                    "prepare: fused_moving_avg_obs_fake_quantize(min_max): this fake-quant works "
                    "with moving averages, got min_max; use "
                    "fake_quantize(min_max)");
  CHECK_THROWS_WITH(make_observer(named("fake_quantize(entropy)")),
                    Catch::Contains("observer \"entropy\": unknown"));
  CHECK_THROWS_WITH(make_observer(named("min_max(histogram)")),
                    Catch::Contains("observer \"min_max(histogram)\": unknown"));
  ObserverArgs axis =
      named("fused_moving_avg_obs_fake_quantize(moving_average_per_channel_min_max)");
  axis.qscheme = QScheme::kPerChannelAffine;
  axis.ch_axis = 1;
  CHECK_THROWS_WITH(make_observer(axis), Catch::Contains("supports channel axis 0 only, got 1"));
}

TEST_CASE("fake-quants: the moving average in one op works along other axes too, in two",
          "[annotate][fake_quantize]") {
  ObserverArgs args = named("fused_moving_avg_obs_fake_quantize");
  args.qscheme = QScheme::kPerChannelSymmetric;
  args.ch_axis = 1;
  const std::shared_ptr<Observer> observer = make_observer(args);
  const at::Tensor x = at::linspace(-1, 1, 6).reshape({2, 3});
  const at::Tensor y = observer->forward(x);
  CHECK(fake_quant(*observer).scale().numel() == 3);
  const std::vector<float> want = floats(x);
  const std::vector<float> got = floats(y);
  for (size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) < 0.01f);
}

// Everything per tensor, with one kind of observer.
class OneObserver : public Quantizer {
 public:
  explicit OneObserver(std::string observer) : observer_(std::move(observer)) {}
  std::string name() const override { return "one"; }
  void annotate(Graph& graph, Annotations& annotations, Report&) override {
    QuantizationSpec spec{.dtype = DType::kInt8,
                          .observer_or_fake_quant_ctr = {},
                          .quant_min = -128,
                          .quant_max = 127,
                          .qscheme = QScheme::kPerTensorAffine,
                          .ch_axis = {}};
    spec.observer_or_fake_quant_ctr.name = observer_;
    for (const Node* node : graph.nodes()) {
      for (Value* input : node->inputs()) annotations[node].set_input(input, spec);
      annotations[node].output_qspec = spec;
    }
  }

 private:
  std::string observer_;
};

Graph converted_with(const std::string& observer) {
  OneObserver quantizer(observer);
  Report report;
  ObservedGraph observed = prepare_pt2e(parse_graph(R"(
graph(%x: f32[4,3]):
  %y: f32[4,3] = aten.relu.default(%x)
  return (%y))"),
                                        quantizer, report);
  calibrate(observed, {{test::make_batch(1, {4, 3}, 1, 0)}, {test::make_batch(2, {4, 3}, 2, 0)}});
  return convert_pt2e(std::move(observed), {}, report);
}

TEST_CASE(
    "fake-quants: a graph prepared with them converts, and hands quantized values on while it is "
    "calibrated",
    "[annotate][fake_quantize]") {
  const Graph graph = converted_with("fake_quantize(min_max)");
  const Graph plain = converted_with("min_max");
  std::vector<std::string> targets, plain_targets;
  for (const Node* node : graph.nodes()) targets.push_back(node->target());
  for (const Node* node : plain.nodes()) plain_targets.push_back(node->target());
  CHECK(targets == plain_targets);
  const auto scale = [](const Graph& of, size_t q) {
    return of.nodes().at(q)->float_or("scale", 0);
  };
  CHECK(scale(graph, 0) == scale(plain, 0));
  // the ReLU saw x on the grid of its quantized values
  CHECK(std::abs(scale(graph, 3) / scale(plain, 3) - 1) < 0.02);
}

}  // namespace
}  // namespace octet::test_fake_quantize

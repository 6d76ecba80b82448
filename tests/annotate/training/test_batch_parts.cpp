// A training step that runs its batch in parts equals the step of the whole batch: ranges,
// statistics, gradients.
#include <barrier>
#include <exception>
#include <functional>
#include <string>
#include <thread>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "annotate/flow_helpers.h"
#include "annotate/prepare/prepare.h"
#include "annotate/training/qat_model.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/text/text.h"
#include "support/rule_quantizer.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_batch_parts {
namespace {

using Json = nlohmann::ordered_json;

// Threads instead of processes.
class Meeting {
 public:
  explicit Meeting(size_t count) : barrier_(static_cast<std::ptrdiff_t>(count)), places_(count) {}

  template <typename Number, typename Join>
  void reduce(size_t rank, std::span<Number> numbers, const Join& join) {
    places_[rank] = numbers.data();
    barrier_.arrive_and_wait();
    std::vector<Number> all(numbers.begin(), numbers.end());
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<Number*>(places_[0])[i];
      for (size_t other = 1; other < places_.size(); ++other)
        all[i] = join(all[i], static_cast<Number*>(places_[other])[i]);
    }
    barrier_.arrive_and_wait();
    std::copy(all.begin(), all.end(), numbers.begin());
  }

 private:
  std::barrier<> barrier_;
  std::vector<void*> places_;
};

class Part : public BatchParts {
 public:
  Part(Meeting& meeting, size_t rank, size_t count, BatchPart part)
      : meeting_(meeting), rank_(rank), count_(count), part_(part) {}
  size_t rank() const override { return rank_; }
  size_t count() const override { return count_; }
  BatchPart part() const override { return part_; }
  void sum(std::span<double> numbers) override {
    meeting_.reduce(rank_, numbers, [](double a, double b) { return a + b; });
  }
  void min(std::span<float> numbers) override {
    meeting_.reduce(rank_, numbers, [](float a, float b) { return std::min(a, b); });
  }
  std::vector<std::string> share(const std::string& text) override { return {text}; }

 private:
  Meeting& meeting_;
  size_t rank_, count_;
  BatchPart part_;
};

Json spec_of(const std::string& fake_quant, const std::string& observer) {
  Json spec = test::act_spec();
  spec["observer"] = fake_quant;
  spec["observer_args"] = {{"observer", observer}};
  return spec;
}

std::string text_for(int64_t rows) {
  return fmt::format(
      R"(graph(%x: f32[{0},3,6,6], %w = param "conv.weight": f32[4,3,3,3], %b = param "conv.bias": f32[4],
      %g = param "bn.weight": f32[4], %h = param "bn.bias": f32[4], %m = buffer "bn.running_mean": f32[4],
      %v = buffer "bn.running_var": f32[4], %n = buffer "bn.num_batches_tracked": i64[]):
    %c: f32[{0},4,4,4] = aten.conv2d.default(%x, %w, %b)
    %k: i64[] = aten.add_.Tensor(%n, 1)
    %y: f32[{0},4,4,4] = aten.batch_norm.default(%c, %g, %h, %m, %v, True, 0.03, 0.001, False)
    %r: f32[{0},4,4,4] = aten.sigmoid.default(%y)
    return (%r))",
      rows);
}

Graph filled(int64_t rows) {
  Graph graph = parse_graph(text_for(rows));
  test::fill_floats(graph);
  for (auto& [fqn, constant] : graph.constants) {
    constant.requires_grad = constant.is_parameter;
    if (fqn.ends_with("running_var")) to_aten(constant.tensor).abs_().add_(0.5);
    if (fqn.ends_with("num_batches_tracked")) constant.tensor = Tensor::zeros(DType::kInt64, {});
  }
  return graph;
}

ObservedGraph prepared(int64_t rows, const Json& spec) {
  const Json rules = Json::array(
      {{{"target", "aten.conv2d.default"},
        {"inputs", {{"0", spec}, {"1", spec}}},
        {"output", nullptr}},
       {{"target", "aten.sigmoid.default"}, {"inputs", {{"0", spec}}}, {"output", nullptr}}});
  test::RuleQuantizer quantizer(rules);
  Report report;
  return prepare_qat_pt2e(filled(rows), quantizer, report, {});
}

// The state after a step.
struct Step {
  std::vector<at::Tensor> gradients;
  std::map<std::string, at::Tensor> buffers;
  std::vector<ObserverState> ranges;
};

Step run_step(QatModel& model, const at::Tensor& x, double weight) {
  model.train();
  at::Tensor loss;
  for (int i = 0; i < 2; ++i) {  // the ranges move, and those that can be learned are
    loss = model.forward({x * (i + 1)})[0].toTensor().square().sum() * weight;
    model.enable_range_learning();
  }
  loss.backward();
  Step step;
  for (const at::Tensor& parameter : model.parameters()) step.gradients.push_back(parameter.grad());
  for (const auto& [name, tensor] : model.tensors())
    if (name.find("running") != std::string::npos) step.buffers[name] = tensor;
  for (const std::shared_ptr<Observer>& observer : model.prepared().observers)
    step.ranges.push_back(observer->state());
  return step;
}

// The sizes of the parts; 0: the part runs the first row, which does not count.
std::vector<Step> run_parts(const at::Tensor& x, const std::vector<int64_t>& sizes,
                            const Json& spec) {
  Meeting meeting(sizes.size());
  std::vector<Step> steps(sizes.size());
  std::vector<std::thread> threads;
  int64_t begin = 0;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    const int64_t rows = std::max<int64_t>(1, sizes[rank]);
    const at::Tensor own = x.narrow(0, sizes[rank] == 0 ? 0 : begin, rows);
    begin += sizes[rank];
    const BatchPart part{.share = static_cast<double>(rows) / static_cast<double>(x.size(0)),
                         .counts = sizes[rank] > 0};
    threads.emplace_back([&, rank, own, rows, part] {
      Part parts(meeting, rank, sizes.size(), part);
      QatModel model(prepared(rows, spec), {}, &parts);
      steps[rank] = run_step(model, own, part.counts ? 1 : 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return steps;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / b.abs().max().item<double>();
}

void check_parts_of(const std::vector<int64_t>& sizes, const Json& spec) {
  at::manual_seed(3);
  const at::Tensor x = at::randn({4, 3, 6, 6});
  QatModel model(prepared(4, spec));
  const Step whole = run_step(model, x, 1);
  const std::vector<Step> parts = run_parts(x, sizes, spec);
  for (size_t i = 0; i < whole.gradients.size(); ++i) {
    if (!whole.gradients[i].defined()) continue;
    at::Tensor sum = at::zeros_like(whole.gradients[i]);
    for (const Step& part : parts) sum += part.gradients[i];
    // a bias before a batch norm has only a gradient from rounding
    if (whole.gradients[i].abs().max().item<double>() > 1e-3)
      CHECK(distance(sum, whole.gradients[i]) < 1e-3);
  }
  for (const Step& part : parts) {
    for (const auto& [name, tensor] : whole.buffers)
      CHECK(distance(part.buffers.at(name), tensor) < 1e-5);
    for (const auto& [name, tensor] : parts.front().buffers)
      CHECK(at::equal(part.buffers.at(name), tensor));
    REQUIRE(part.ranges.size() == whole.ranges.size());
    for (size_t i = 0; i < part.ranges.size(); ++i) {
      CHECK(part.ranges[i].batches == whole.ranges[i].batches);
      REQUIRE(part.ranges[i].min.size() == whole.ranges[i].min.size());
      for (size_t j = 0; j < part.ranges[i].min.size(); ++j) {
        CHECK(part.ranges[i].min[j] == Approx(whole.ranges[i].min[j]).epsilon(1e-4));
        CHECK(part.ranges[i].max[j] == Approx(whole.ranges[i].max[j]).epsilon(1e-4));
      }
      CHECK(part.ranges[i] == parts.front().ranges[i]);
    }
  }
}

}  // namespace

TEST_CASE("batch parts: gradients, statistics and ranges are those of the whole batch",
          "[annotate][qat]") {
  for (const char* fake_quant :
       {"FakeQuantize", "FusedMovingAvgObsFakeQuantize", "lsq_fake_quantize"})
    for (const std::vector<int64_t>& sizes :
         std::vector<std::vector<int64_t>>{{2, 2}, {3, 1}, {2, 1, 1, 0}})
      check_parts_of(sizes, spec_of(fake_quant, "MovingAverageMinMaxObserver"));
}

TEST_CASE("batch parts: scales per channel of activations have the ends of all parts",
          "[annotate][qat]") {
  Json spec = spec_of("FakeQuantize", "MovingAveragePerChannelMinMaxObserver");
  spec["qscheme"] = "per_channel_affine";
  spec["ch_axis"] = 1;
  check_parts_of({1, 3}, spec);
}

TEST_CASE("batch parts: observers that want more than ends, and branches, are refused",
          "[annotate][qat]") {
  Meeting meeting(1);
  Part part(meeting, 0, 1, {});
  CHECK_THROWS_WITH(QatModel(prepared(2, spec_of("FakeQuantize", "HistogramObserver")), {}, &part),
                    Catch::Matchers::Contains("looks at more than minimum and maximum") &&
                        Catch::Matchers::Contains("start one"));
}

}  // namespace octet::test_batch_parts

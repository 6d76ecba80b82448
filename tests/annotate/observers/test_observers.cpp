// Compares observers, and their scales and zero points, with torchao's on the same data
// (make_observer_goldens.py).
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <nlohmann/json.hpp>

#include "annotate/observers/data_free.h"
#include "annotate/observers/histogram.h"
#include "annotate/observers/observer_cases.h"
#include "core/base/error.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_observers {
namespace {

using Json = nlohmann::json;
using test::args_of;
using test::named;
using test::observed;

Json goldens() { return test::read_goldens("observer_goldens.json"); }

// torchao leaves 128 where reduce_range ends at 127; here it is the middle of the range.
std::vector<int64_t> zero_points_of(const Json& want, const Observer& observer) {
  std::vector<int64_t> points = want.at("zero_point").get<std::vector<int64_t>>();
  for (int64_t& point : points)
    if (point > observer.quant_max()) point = (observer.quant_min() + observer.quant_max()) / 2;
  return points;
}

TEST_CASE("observers: scales, zero points and ranges equal torchao's to the bit",
          "[annotate][observer]") {
  for (const Json& entry : goldens()) {
    INFO(entry.at("name"));
    const std::shared_ptr<Observer> observer = observed(entry);
    const QParams qparams = observer->calculate_qparams();
    const Json& want = entry.at("want");
    CHECK(qparams.scale == want.at("scale").get<std::vector<float>>());
    CHECK(name_of(qparams.zero_point_dtype) ==
          (want.at("zero_point_dtype") == "int64"
               ? "int64"
               : want.at("zero_point_dtype").get<std::string>()));
    if (qparams.zero_point_dtype == DType::kFloat32)
      CHECK(qparams.float_zero_point == want.at("zero_point").get<std::vector<float>>());
    else
      CHECK(qparams.zero_point == zero_points_of(want, *observer));
    CHECK(observer->state().min == want.at("min").get<std::vector<float>>());
    CHECK(observer->state().max == want.at("max").get<std::vector<float>>());
  }
}

TEST_CASE("histogram: counts and the searched range equal torchao's to the bit",
          "[annotate][observer]") {
  for (const Json& entry : goldens()) {
    if (entry.at("observer") != "histogram") continue;
    INFO(entry.at("name"));
    const std::shared_ptr<Observer> observer = observed(entry);
    const std::vector<float> counts = observer->state().histogram;
    double sum = 0;
    double moment = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      sum += counts[i];
      moment += counts[i] * static_cast<double>(i + 1);
    }
    const Json& want = entry.at("want");
    CHECK(sum == want.at("histogram_sum").get<double>());
    CHECK(moment == want.at("histogram_moment").get<double>());
    const HistogramObserver::Range range =
        dynamic_cast<const HistogramObserver&>(*observer).search_range();
    CHECK(range.min == want.at("search_min").get<float>());
    CHECK(range.max == want.at("search_max").get<float>());
  }
}

TEST_CASE("observers: state put into a fresh observer gives the same scale",
          "[annotate][observer]") {
  for (const Json& entry : goldens()) {
    INFO(entry.at("name"));
    const std::shared_ptr<Observer> first = observed(entry);
    const std::shared_ptr<Observer> second = make_observer(args_of(entry));
    second->set_state(first->state());
    CHECK(second->calculate_qparams().scale == first->calculate_qparams().scale);
    CHECK(second->has_data());
  }
}

TEST_CASE("observers: an empty batch changes nothing", "[annotate][observer]") {
  for (const std::string name : {"min_max", "histogram", "moving_average_min_max"}) {
    const std::shared_ptr<Observer> observer = make_observer(named(name));
    observer->observe(at::empty({0, 3}));
    CHECK_FALSE(observer->has_data());
    CHECK_THROWS_WITH(
        observer->calculate_qparams(),
        Catch::Contains("saw no data") && Catch::Contains("calibrate before converting"));
  }
}

TEST_CASE("histogram: infinities are left out", "[annotate][observer]") {
  HistogramObserver observer(named("histogram"));
  observer.observe(at::tensor({-1.0f, 2.0f, INFINITY, -INFINITY}));
  CHECK(observer.state().min == std::vector<float>{-1.0f});
  CHECK(observer.state().max == std::vector<float>{2.0f});
}

TEST_CASE("observers: NaN is refused", "[annotate][observer]") {
  for (const std::string name : {"min_max", "histogram"})
    CHECK_THROWS_WITH(make_observer(named(name))->observe(at::tensor({1.0f, NAN})),
                      Catch::Contains("NaN"));
  CHECK_THROWS_WITH(make_observer(named("min_max"))->observe(at::tensor({1.0f, INFINITY})),
                    Catch::Contains("infinities"));
}

TEST_CASE("observers: unfit arguments are refused by name", "[annotate][observer]") {
  CHECK_THROWS_WITH(make_observer(named("entropy")),
                    Catch::Contains("observer \"entropy\"") && Catch::Contains("histogram"));
  ObserverArgs per_channel = named("min_max");
  per_channel.qscheme = QScheme::kPerChannelAffine;
  CHECK_THROWS_WITH(make_observer(per_channel), Catch::Contains("works per tensor"));
  ObserverArgs dynamic = named("histogram");
  dynamic.is_dynamic = true;
  CHECK_THROWS_WITH(make_observer(dynamic), Catch::Contains("placeholder"));
  ObserverArgs range = named("min_max");
  range.quant_min = 1;
  range.quant_max = 100;
  CHECK_THROWS_WITH(make_observer(range), Catch::Contains("must hold 0"));
  range.quant_min.reset();
  CHECK_THROWS_WITH(make_observer(range), Catch::Contains("both or neither"));
  ObserverArgs float8 = named("min_max");
  float8.dtype = DType::kFloat8E4M3FN;
  CHECK_THROWS_WITH(make_observer(float8), Catch::Contains("no default quant range"));
  CHECK_THROWS_WITH(make_observer(named("placeholder"))->calculate_qparams(),
                    Catch::Contains("has no scale"));
}

TEST_CASE("observers: per channel, the channel count must not change", "[annotate][observer]") {
  ObserverArgs args = named("per_channel_min_max");
  args.qscheme = QScheme::kPerChannelSymmetric;
  args.ch_axis = 1;
  const std::shared_ptr<Observer> observer = make_observer(args);
  observer->observe(at::full({2, 3}, 1.0));
  CHECK_THROWS_WITH(observer->observe(at::full({2, 4}, 1.0)), Catch::Contains("got 4, want 3"));
  CHECK_THROWS_WITH(observer->observe(at::full({3}, 1.0)),
                    Catch::Contains("ch_axis 1 of a tensor of rank 1"));
}

TEST_CASE("recording: keeps copies of the tensors in order and has no scale",
          "[annotate][observer]") {
  RecordingObserver observer(named("recording"));
  CHECK_FALSE(observer.has_data());
  at::Tensor x = at::full({2}, 1.0);
  observer.observe(x);
  x.fill_(2.0);
  observer.observe(x);
  REQUIRE(observer.tensors().size() == 2);
  CHECK(observer.tensors()[0].equal(at::full({2}, 1.0)));
  CHECK(observer.tensors()[1].equal(at::full({2}, 2.0)));
  CHECK_THROWS_WITH(
      observer.calculate_qparams(),
      "convert: recording: a recording observer has no scale; read its tensors, or choose min_max");
}

TEST_CASE("noop: looks at nothing and has no scale", "[annotate][observer]") {
  ObserverArgs args = named("noop");
  args.dtype = DType::kFloat16;
  const std::shared_ptr<Observer> observer = make_observer(args);
  observer->observe(at::full({2}, 1.0));
  CHECK(observer->state() == ObserverState{});
  CHECK_THROWS_WITH(
      observer->calculate_qparams(),
      "convert: noop: a noop observer has no scale; use it for float16, or choose min_max");
  args.is_dynamic = true;
  CHECK_THROWS_WITH(
      make_observer(args),
      "prepare: noop: this observer cannot serve dynamic quantization; use placeholder");
}

// The largest magnitude of all batches, on a scale without zero point.
class LargestMagnitude : public Observer {
 public:
  using Observer::Observer;
  void observe(const at::Tensor& x) override {
    largest_ = std::max(largest_, x.abs().max().item<float>());
  }
  QParams calculate_qparams() const override {
    const float low = -largest_;
    return choose_qparams({&low, 1}, {&largest_, 1}, target(), args_.choice.name);
  }
  bool has_data() const override { return largest_ >= 0; }

 private:
  float largest_ = -1;
};

TEST_CASE("observers: specs may name an observer class that a user registers",
          "[annotate][observer]") {
  register_observer("largest_magnitude", ObserverScope::kTensor, [](const ObserverArgs& args) {
    return std::make_shared<LargestMagnitude>(args);
  });
  QuantizationSpec spec{.dtype = DType::kInt8,
                        .observer_or_fake_quant_ctr = {},
                        .quant_min = -127,
                        .quant_max = 127,
                        .qscheme = QScheme::kPerTensorSymmetric,
                        .ch_axis = 3};
  spec.observer_or_fake_quant_ctr.name = "largest_magnitude";
  CHECK_FALSE(observer_args(spec).ch_axis.has_value());
  const std::shared_ptr<Observer> observer = make_observer(observer_args(spec));
  observer->observe(at::tensor({1.0f, -25.4f}));
  CHECK(observer->calculate_qparams().scale[0] == Approx(0.2f));
  CHECK_THROWS_WITH(
      register_observer("largest_magnitude", ObserverScope::kTensor, {}),
      "prepare: observer \"largest_magnitude\": the name is taken; choose another one");
  CHECK_THROWS_WITH(
      observer->merge(*observer),
      "state: observer \"largest_magnitude\": cannot be merged; calibrate it on one machine");
}

TEST_CASE("observers: a derived scale is the product or the sum of others",
          "[annotate][observer]") {
  const auto fixed = [](double scale) {
    return make_observer(FixedQParamsQuantizationSpec{.dtype = DType::kUInt8,
                                                      .scale = scale,
                                                      .zero_point = 3,
                                                      .quant_min = 0,
                                                      .quant_max = 255,
                                                      .qscheme = {}});
  };
  DerivedQuantizationSpec spec;
  spec.derive_qparams_fn = find_derive_fn("product_of_scales");
  const QParams product = make_observer(spec, {fixed(0.5), fixed(0.25)})->calculate_qparams();
  CHECK(product.scale == std::vector<float>{0.125f});
  CHECK(product.zero_point == std::vector<int64_t>{0});
  spec.derive_qparams_fn = find_derive_fn("sum_of_scales");
  const QParams sum = make_observer(spec, {fixed(0.5), fixed(0.25)})->calculate_qparams();
  CHECK(sum.scale == std::vector<float>{0.75f});
  CHECK(sum.zero_point == std::vector<int64_t>{3});
  CHECK(find_derive_fn("median") == nullptr);
}

TEST_CASE("specs: contradictions are refused with the subject", "[annotate][spec]") {
  QuantizationSpec spec;
  spec.quant_min = 5;
  spec.quant_max = -5;
  CHECK_THROWS_WITH(
      check_spec(spec, "%x -> %conv"),
      Catch::Contains("annotate: %x -> %conv: quant_min is above quant_max, got [5, -5]"));
  spec.quant_min = -200;
  spec.quant_max = 127;
  CHECK_THROWS_WITH(check_spec(spec, "%x"), Catch::Contains("got -200, want [-128, 127]"));
  QuantizationSpec channel;
  channel.qscheme = QScheme::kPerChannelSymmetric;
  CHECK_THROWS_WITH(check_spec(channel, "%w"), Catch::Contains("no ch_axis"));
  channel.ch_axis = -1;
  CHECK_THROWS_WITH(check_spec(channel, "%w"), Catch::Contains("ch_axis is negative"));
  FixedQParamsQuantizationSpec fixed;
  fixed.scale = 0;
  CHECK_THROWS_WITH(check_spec(fixed, "%y"), Catch::Contains("positive and finite"));
  CHECK_THROWS_WITH(check_spec(DerivedQuantizationSpec{}, "%b"), Catch::Contains("derives from"));
  CHECK_THROWS_WITH(check_spec(SharedQuantizationSpec{}, "%b"), Catch::Contains("names no edge"));
}

}  // namespace
}  // namespace octet::test_observers

// Observers and the choice of scale and zero point, against what torchao computed for the same numbers (make_observer_goldens.py).
#include <fstream>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <nlohmann/json.hpp>

#include "annotate/data_free_observers.h"
#include "annotate/histogram_observer.h"
#include "annotate/observer.h"
#include "core/error.h"

// After torch, which has a macro CHECK of its own.
#include <catch2/catch.hpp>

namespace octet {
namespace {

using Json = nlohmann::json;

// Twin of batch() in make_observer_goldens.py.
at::Tensor make_batch(uint32_t seed, const std::vector<int64_t>& shape, float scale, float shift) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  uint32_t state = seed;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    int total = 0;
    for (int draw = 0; draw < 4; ++draw) {
      state = state * 1664525u + 1013904223u;
      total += static_cast<int>(state >> 16);
    }
    const float value = static_cast<float>(total - 131072) / 32768.0f * scale;
    tensor.data_ptr<float>()[i] = value + shift;
  }
  return tensor;
}

ObserverArgs args_of(const Json& entry) {
  const Json& json = entry.at("args");
  ObserverArgs args;
  args.choice.name = entry.at("observer");
  args.dtype = find_dtype(json.at("dtype").get<std::string>()).value();
  args.qscheme = find_qscheme(json.at("qscheme").get<std::string>()).value();
  if (json.contains("quant_min")) args.quant_min = json.at("quant_min").get<int64_t>();
  if (json.contains("quant_max")) args.quant_max = json.at("quant_max").get<int64_t>();
  if (json.contains("ch_axis")) args.ch_axis = json.at("ch_axis").get<int>();
  if (json.contains("eps")) args.choice.eps = json.at("eps").get<double>();
  args.choice.bins = json.value("bins", 2048);
  args.choice.averaging_constant = json.value("averaging_constant", 0.01);
  return args;
}

std::shared_ptr<Observer> observed(const Json& entry) {
  std::shared_ptr<Observer> observer = make_observer(args_of(entry));
  uint32_t seed = 1;
  for (const Json& batch : entry.at("batches"))
    observer->observe(make_batch(seed++, entry.at("shape").get<std::vector<int64_t>>(), batch.at(0), batch.at(1)));
  return observer;
}

Json goldens() { return Json::parse(std::ifstream(std::string(OCTET_TEST_DATA) + "/annotate/observer_goldens.json")); }

ObserverArgs named(const std::string& name) {
  ObserverArgs args;
  args.choice.name = name;
  return args;
}

TEST_CASE("observers: scales, zero points and ranges equal torchao's to the bit", "[annotate][observer]") {
  for (const Json& entry : goldens()) {
    INFO(entry.at("name"));
    const std::shared_ptr<Observer> observer = observed(entry);
    const QParams qparams = observer->calculate_qparams();
    const Json& want = entry.at("want");
    CHECK(qparams.scale == want.at("scale").get<std::vector<float>>());
    CHECK(name_of(qparams.zero_point_dtype) == (want.at("zero_point_dtype") == "int64" ? "int64" : want.at("zero_point_dtype").get<std::string>()));
    if (qparams.zero_point_dtype == DType::kFloat32)
      CHECK(qparams.float_zero_point == want.at("zero_point").get<std::vector<float>>());
    else
      CHECK(qparams.zero_point == want.at("zero_point").get<std::vector<int64_t>>());
    CHECK(observer->state().min == want.at("min").get<std::vector<float>>());
    CHECK(observer->state().max == want.at("max").get<std::vector<float>>());
  }
}

TEST_CASE("histogram: counts and the searched range equal torchao's to the bit", "[annotate][observer]") {
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
    const HistogramObserver::Range range = dynamic_cast<const HistogramObserver&>(*observer).search_range();
    CHECK(range.min == want.at("search_min").get<float>());
    CHECK(range.max == want.at("search_max").get<float>());
  }
}

TEST_CASE("observers: state put into a fresh observer gives the same scale", "[annotate][observer]") {
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
    CHECK_THROWS_WITH(observer->calculate_qparams(), Catch::Contains("saw no data") && Catch::Contains("calibrate before converting"));
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
    CHECK_THROWS_WITH(make_observer(named(name))->observe(at::tensor({1.0f, NAN})), Catch::Contains("NaN"));
  CHECK_THROWS_WITH(make_observer(named("min_max"))->observe(at::tensor({1.0f, INFINITY})), Catch::Contains("infinities"));
}

TEST_CASE("observers: unfit arguments are refused by name", "[annotate][observer]") {
  CHECK_THROWS_WITH(make_observer(named("entropy")), Catch::Contains("observer \"entropy\"") && Catch::Contains("histogram"));
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
  CHECK_THROWS_WITH(make_observer(named("placeholder"))->calculate_qparams(), Catch::Contains("has no scale"));
}

TEST_CASE("observers: per channel, the channel count must not change", "[annotate][observer]") {
  ObserverArgs args = named("per_channel_min_max");
  args.qscheme = QScheme::kPerChannelSymmetric;
  args.ch_axis = 1;
  const std::shared_ptr<Observer> observer = make_observer(args);
  observer->observe(at::full({2, 3}, 1.0));
  CHECK_THROWS_WITH(observer->observe(at::full({2, 4}, 1.0)), Catch::Contains("got 4, want 3"));
  CHECK_THROWS_WITH(observer->observe(at::full({3}, 1.0)), Catch::Contains("ch_axis 1 of a tensor of rank 1"));
}

TEST_CASE("observers: a derived scale is the product or the sum of others", "[annotate][observer]") {
  const auto fixed = [](double scale) {
    return make_observer(
        FixedQParamsQuantizationSpec{.dtype = DType::kUInt8, .scale = scale, .zero_point = 3, .quant_min = 0, .quant_max = 255, .qscheme = {}});
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
  CHECK_THROWS_WITH(check_spec(spec, "%x -> %conv"), Catch::Contains("annotate: %x -> %conv: quant_min is above quant_max, got [5, -5]"));
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
}  // namespace octet

// Merging two observers that each saw a part of the data gives the observer of all data.
#include <algorithm>
#include <cmath>
#include <random>

#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include "annotate/observers/data_free.h"
#include "annotate/observers/fake_quantize.h"
#include "annotate/observers/observer_cases.h"
#include "core/base/error.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_observer_merge {
namespace {

using test::named;

std::vector<at::Tensor> random_batches(std::mt19937& random, const std::vector<int64_t>& shape) {
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<at::Tensor> batches;
  const size_t count = 1 + random() % 6;
  for (size_t i = 0; i < count; ++i) {
    const at::Tensor normal =
        test::make_batch(static_cast<uint32_t>(random()), shape, std::exp2(8 * uniform(random) - 4),
                         4 * uniform(random) - 2);
    batches.push_back(random() % 3 == 0 ? normal.clamp_min(0) : normal);
  }
  return batches;
}

std::shared_ptr<Observer> observe(const ObserverArgs& args,
                                  const std::vector<at::Tensor>& batches) {
  std::shared_ptr<Observer> observer = make_observer(args);
  for (const at::Tensor& batch : batches) observer->observe(batch);
  return observer;
}

std::vector<at::Tensor> operator+(std::vector<at::Tensor> first,
                                  const std::vector<at::Tensor>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

ObserverArgs per_channel(const std::string& name) {
  ObserverArgs args = named(name);
  args.qscheme = QScheme::kPerChannelSymmetric;
  args.ch_axis = 1;
  return args;
}

float largest_magnitude(const std::vector<at::Tensor>& batches) {
  float result = 0;
  for (const at::Tensor& batch : batches)
    result = std::max(result, batch.abs().max().item<float>());
  return result;
}

void check_close(const std::vector<float>& got, const std::vector<float>& want, double bound) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i)
    CHECK(std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])) <= bound);
}

TEST_CASE("merge: min-max kinds equal one pass exactly, for random shards", "[annotate][merge]") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 50; ++trial)
    for (const ObserverArgs& args :
         {named("min_max"), per_channel("per_channel_min_max"), named("fake_quantize(min_max)")}) {
      const std::vector<at::Tensor> a = random_batches(random, {3, 5, 7});
      const std::vector<at::Tensor> b = random_batches(random, {3, 5, 7});
      const std::shared_ptr<Observer> merged = observe(args, a);
      merged->merge(*observe(args, b));
      CHECK(merged->state() == observe(args, a + b)->state());
    }
}

TEST_CASE("merge: moving averages equal one pass within the stated bound, for random shards",
          "[annotate][merge]") {
  std::mt19937 random(2);
  for (int trial = 0; trial < 100; ++trial)
    for (ObserverArgs args :
         {named("moving_average_min_max"), per_channel("moving_average_per_channel_min_max")}) {
      args.choice.averaging_constant = trial % 2 == 0 ? 0.01 : 0.25;
      const std::vector<at::Tensor> a = random_batches(random, {3, 5, 7});
      const std::vector<at::Tensor> b = random_batches(random, {3, 5, 7});
      const std::shared_ptr<Observer> merged = observe(args, a);
      merged->merge(*observe(args, b));
      const ObserverState got = merged->state();
      const ObserverState want = observe(args, a + b)->state();
      const double bound =
          std::ldexp(1.0, -21) / args.choice.averaging_constant * largest_magnitude(a + b);
      check_close(got.min, want.min, bound);
      check_close(got.max, want.max, bound);
      CHECK(got.batches == want.batches);
      CHECK(got.first_min == want.first_min);
      if (b.size() == 1) CHECK(got == want);
    }
}

TEST_CASE("merge: three shards of a moving average, merged in order, equal one pass",
          "[annotate][merge]") {
  std::mt19937 random(3);
  const ObserverArgs args = named("moving_average_min_max");
  const std::vector<at::Tensor> a = random_batches(random, {40});
  const std::vector<at::Tensor> b = random_batches(random, {40});
  const std::vector<at::Tensor> c = random_batches(random, {40});
  const std::shared_ptr<Observer> tail = observe(args, b);
  tail->merge(*observe(args, c));
  const std::shared_ptr<Observer> merged = observe(args, a);
  merged->merge(*tail);
  check_close(merged->state().max, observe(args, a + b + c)->state().max,
              1e-4 * largest_magnitude(a + b + c));
}

// Merged and one-pass counts below each boundary between bins agree up to a shift by `bins` bins.
void check_shift(const ObserverState& got, const ObserverState& want, size_t bins) {
  const size_t count = want.histogram.size();
  std::vector<double> below_got(count + 1), below_want(count + 1);
  for (size_t i = 0; i < count; ++i) {
    below_got[i + 1] = below_got[i] + static_cast<double>(got.histogram[i]);
    below_want[i + 1] = below_want[i] + static_cast<double>(want.histogram[i]);
  }
  const double total = below_want[count];
  CHECK(below_got[count] == Approx(total).epsilon(1e-5));
  bool is_within = true;
  for (size_t i = 0; i <= count; ++i) {
    const double low = i < bins ? 0.0 : below_want[i - bins];
    const double high = i + bins > count ? total : below_want[i + bins];
    is_within =
        is_within && below_got[i] >= low - 1e-5 * total && below_got[i] <= high + 1e-5 * total;
  }
  CHECK(is_within);
}

TEST_CASE(
    "merge: histograms keep range and total, and counts move by the stated number of bins, for "
    "random shards",
    "[annotate][merge]") {
  std::mt19937 random(4);
  for (int trial = 0; trial < 60; ++trial) {
    const ObserverArgs args = named("histogram");
    const std::vector<at::Tensor> a = random_batches(random, {3, 500});
    const std::vector<at::Tensor> b = random_batches(random, {3, 500});
    const std::shared_ptr<Observer> merged = observe(args, a);
    merged->merge(*observe(args, b));
    const ObserverState got = merged->state();
    const ObserverState want = observe(args, a + b)->state();
    CHECK(got.min == want.min);
    CHECK(got.max == want.max);
    const size_t spreadings = (a.size() - 1) + (b.size() - 1) + 2 + (a.size() + b.size() - 1);
    check_shift(got, want, spreadings + 1);
  }
}

TEST_CASE("merge: histograms over the same range are added exactly", "[annotate][merge]") {
  const std::vector<at::Tensor> a = {at::tensor({-1.0f, 0.25f, 1.0f})};
  const std::vector<at::Tensor> b = {at::tensor({-1.0f, 0.5f, 0.75f, 1.0f})};
  const std::shared_ptr<Observer> merged = observe(named("histogram"), a);
  merged->merge(*observe(named("histogram"), b));
  CHECK(merged->state() == observe(named("histogram"), a + b)->state());
}

TEST_CASE("merge: histograms of one value are put into their place", "[annotate][merge]") {
  const std::vector<at::Tensor> a = {at::full({10}, 0.5)};
  const std::vector<at::Tensor> b = {at::tensor({-1.0f, 3.0f})};
  const std::shared_ptr<Observer> merged = observe(named("histogram"), a);
  merged->merge(*observe(named("histogram"), b));
  CHECK(merged->state() == observe(named("histogram"), a + b)->state());
}

TEST_CASE("merge: an observer without data adds nothing, and takes everything",
          "[annotate][merge]") {
  std::mt19937 random(5);
  for (const std::string name : {"min_max", "moving_average_min_max", "histogram", "fake_quantize",
                                 "fused_moving_avg_obs_fake_quantize"}) {
    const std::vector<at::Tensor> a = random_batches(random, {30});
    const std::shared_ptr<Observer> full = observe(named(name), a);
    const ObserverState before = full->state();
    full->merge(*make_observer(named(name)));
    CHECK(full->state() == before);
    const std::shared_ptr<Observer> fresh = make_observer(named(name));
    fresh->merge(*full);
    CHECK(fresh->state() == before);
    CHECK(fresh->calculate_qparams().scale == full->calculate_qparams().scale);
  }
}

TEST_CASE("merge: a scale asked for before is not kept", "[annotate][merge]") {
  const std::shared_ptr<Observer> observer =
      observe(named("histogram"), {at::tensor({-1.0f, 1.0f})});
  const float before = observer->calculate_qparams().scale[0];
  observer->merge(*observe(named("histogram"), {at::tensor({-8.0f, 8.0f})}));
  CHECK(observer->calculate_qparams().scale[0] > 2 * before);
}

TEST_CASE("merge: recorded tensors are appended", "[annotate][merge]") {
  RecordingObserver first(named("recording"));
  RecordingObserver second(named("recording"));
  first.observe(at::full({1}, 1.0));
  second.observe(at::full({1}, 2.0));
  first.merge(second);
  REQUIRE(first.tensors().size() == 2);
  CHECK(first.tensors()[1].item<float>() == 2.0f);
}

TEST_CASE("merge: kinds that learn nothing have nothing to merge", "[annotate][merge]") {
  const std::shared_ptr<Observer> fixed =
      make_observer(FixedQParamsQuantizationSpec{.dtype = DType::kUInt8,
                                                 .scale = 0.5,
                                                 .zero_point = 3,
                                                 .quant_min = 0,
                                                 .quant_max = 255,
                                                 .qscheme = {}});
  DerivedQuantizationSpec spec;
  spec.derive_qparams_fn = find_derive_fn("product_of_scales");
  const std::shared_ptr<Observer> derived = make_observer(spec, {fixed, fixed});
  for (const std::shared_ptr<Observer>& observer :
       {fixed, derived, make_observer(named("placeholder")), make_observer(named("noop"))}) {
    CHECK_NOTHROW(observer->merge(*observer));
    CHECK_FALSE(observer->keeps_state());
  }
  CHECK(derived->calculate_qparams().scale == std::vector<float>{0.25f});
}

TEST_CASE("merge: what does not fit is refused", "[annotate][merge]") {
  const auto merge = [](const ObserverArgs& a, const ObserverArgs& b) {
    make_observer(a)->merge(*make_observer(b));
  };
  CHECK_THROWS_WITH(
      merge(named("min_max"), named("histogram")),
      "state: observer \"min_max\": observers of different kinds cannot be merged, got histogram");
  CHECK_THROWS_WITH(merge(named("min_max"), named("moving_average_min_max")),
                    "state: observer \"min_max\": observers of different kinds cannot be merged, "
                    "got moving_average_min_max");
  ObserverArgs few_bins = named("histogram");
  few_bins.choice.bins = 64;
  CHECK_THROWS_WITH(merge(named("histogram"), few_bins),
                    "state: observer \"histogram\": observers with different channel axis, bins, "
                    "averaging constant, granularity or percentile cannot be merged");
  const std::shared_ptr<Observer> three =
      observe(per_channel("per_channel_min_max"), {at::full({2, 3}, 1.0)});
  const std::shared_ptr<Observer> four =
      observe(per_channel("per_channel_min_max"), {at::full({2, 4}, 1.0)});
  CHECK_THROWS_WITH(
      three->merge(*four),
      "state: per_channel_min_max: the states differ in the number of ranges, got 4, want 3");
  const std::shared_ptr<Observer> blind = make_observer(named("moving_average_min_max"));
  blind->set_state({.min = {0}, .max = {1}});
  CHECK_THROWS_WITH(observe(named("moving_average_min_max"), {at::full({2}, 1.0)})->merge(*blind),
                    "state: moving_average_min_max: a moving average without its number of batches "
                    "and first range cannot be merged; calibrate that "
                    "part again");
}

}  // namespace
}  // namespace octet::test_observer_merge

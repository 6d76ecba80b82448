// Percentile and minimum-MSE observers: on known distributions, on empty data, and saved and
// loaded as states.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <sstream>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "annotate/observers/kernels.h"
#include "annotate/observers/observer_cases.h"
#include "core/base/error.h"
#include "support/error_message.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_accuracy_observers {
namespace {

using test::named;

ObserverArgs args_with(const std::string& name, QScheme qscheme) {
  ObserverArgs args = named(name);
  args.qscheme = qscheme;
  if (is_per_channel(qscheme) || name == "weight_mse") args.ch_axis = 0;
  return args;
}

// The observers that take constant tensors only.
bool is_for_weights(const std::string& name) {
  return name.starts_with("per_channel") || name == "weight_mse";
}

ObserverArgs percentile_args(double percentile, QScheme qscheme) {
  ObserverArgs args =
      args_with(is_per_channel(qscheme) ? "per_channel_percentile" : "percentile", qscheme);
  args.choice.percentile = percentile;
  return args;
}

QParams qparams_of(const ObserverArgs& args, const at::Tensor& x) {
  const std::shared_ptr<Observer> observer = make_observer(args);
  observer->observe(x);
  return observer->calculate_qparams();
}

// The sum of squared errors of channel `channel` of int8 values, and mean_share of their squared
// sum.
double error_of(const at::Tensor& x, const QParams& qparams, size_t channel = 0,
                double mean_share = 0) {
  const double scale = qparams.scale[channel];
  const double zero_point = static_cast<double>(qparams.zero_point[channel]);
  double squares = 0, sum = 0;
  const at::Tensor values = x.contiguous();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double value = values.const_data_ptr<float>()[i];
    const double stored = std::clamp(std::nearbyint(value / scale) + zero_point, -128.0, 127.0);
    const double rest = value - scale * (stored - zero_point);
    squares += rest * rest;
    sum += rest;
  }
  return squares + mean_share * sum * sum;
}

// 20000 values of a normal distribution and a few outliers.
at::Tensor with_outliers(float low, float high) {
  const at::Tensor normal = test::make_batch(7, {20000}, 1.0f, 0.25f);
  return at::cat({normal, at::tensor({low, low * 0.9f, high, high * 0.95f, high * 0.9f})});
}

const std::vector<at::Tensor>& samples() {
  static const std::vector<at::Tensor> all = {
      test::make_batch(3, {20000}, 1.0f, 0.0f),
      test::make_batch(4, {20000}, 0.1f, 5.0f),
      test::make_batch(5, {20000}, 2.0f, 0.0f).clamp_min(0),
      test::make_batch(6, {20000}, 4.0f, 1.0f).clamp(0, 6),
      with_outliers(-3, 12),
      with_outliers(-40, 3),
      with_outliers(-90, 100),
      with_outliers(0, 1000),
  };
  return all;
}

std::string message_of(const std::function<void()>& action) {
  return test::error_message([&] { action(); });
}

TEST_CASE("mse: the error is at most that of min-max and histogram", "[annotate][observer]") {
  for (const QScheme qscheme : {QScheme::kPerTensorAffine, QScheme::kPerTensorSymmetric})
    for (size_t i = 0; i < samples().size(); ++i) {
      INFO("sample " << i << " " << name_of(qscheme));
      const at::Tensor& x = samples()[i];
      const double least = error_of(x, qparams_of(args_with("mse", qscheme), x));
      // The error within the bins, which the histogram does not see.
      CHECK(least <= 1.03 * error_of(x, qparams_of(args_with("min_max", qscheme), x)));
      CHECK(least <= 1.03 * error_of(x, qparams_of(args_with("histogram", qscheme), x)));
    }
}

TEST_CASE("mse: outliers of two sides are clipped, which divides the error of min-max",
          "[annotate][observer]") {
  const at::Tensor x = with_outliers(-12, 12);
  const double full = error_of(x, qparams_of(args_with("min_max", QScheme::kPerTensorAffine), x));
  const QParams qparams = qparams_of(args_with("mse", QScheme::kPerTensorAffine), x);
  CHECK(error_of(x, qparams) < full);
  CHECK(qparams.scale[0] * 255 < 24);
}

TEST_CASE(
    "per_channel_mse: no range of a coarse grid has a smaller error of products, min-max included",
    "[annotate][observer]") {
  const at::Tensor x = at::stack(
      {with_outliers(-2, 4), with_outliers(-2, 30), test::make_batch(9, {20005}, 0.01f, 0.0f)});
  const QParams qparams =
      qparams_of(args_with("per_channel_mse", QScheme::kPerChannelSymmetric), x);
  const QParams full =
      qparams_of(args_with("per_channel_min_max", QScheme::kPerChannelSymmetric), x);
  REQUIRE(qparams.scale.size() == 3);
  for (size_t channel = 0; channel < 3; ++channel) {
    const at::Tensor row = x.select(0, static_cast<int64_t>(channel));
    const double error = error_of(row, qparams, channel, kMeanShare);
    QParams trial = full;
    for (int step = 0; step <= 32; ++step) {
      trial.scale[channel] = full.scale[channel] * std::exp2(static_cast<float>(-step) / 8.0f);
      CHECK(error <= error_of(row, trial, channel, kMeanShare) * (1 + 1e-6));
    }
  }
}

TEST_CASE(
    "weight_mse: no range of a coarse grid has a smaller error of products, summed over channels",
    "[annotate][observer]") {
  const at::Tensor x = at::stack(
      {with_outliers(-2, 4), with_outliers(-2, 30), test::make_batch(9, {20005}, 0.01f, 0.0f)});
  for (const int axis : {0, 1}) {
    ObserverArgs args = args_with("weight_mse", QScheme::kPerTensorSymmetric);
    args.ch_axis = axis;
    const QParams qparams = qparams_of(args, axis == 0 ? x : x.t());
    REQUIRE(qparams.scale.size() == 1);
    const auto error = [&](const QParams& at) {
      double sum = 0;
      for (int64_t row = 0; row < x.size(0); ++row)
        sum += error_of(x.select(0, row), at, 0, kMeanShare);
      return sum;
    };
    QParams trial = qparams_of(args_with("min_max", QScheme::kPerTensorSymmetric), x);
    const float full = trial.scale[0];
    for (int step = 0; step <= 32; ++step) {
      trial.scale[0] = full * std::exp2(static_cast<float>(-step) / 8.0f);
      CHECK(error(qparams) <= error(trial) * (1 + 1e-6));
    }
  }
}

TEST_CASE("weight_mse: outliers of one sign in a channel are clipped less than by mse",
          "[annotate][observer]") {
  at::Tensor weight = test::make_batch(9, {8, 4000}, 1.0f, 0.0f);
  for (int64_t row = 0; row < weight.size(0); ++row)
    weight.select(0, row).slice(0, 0, 16).fill_(row % 2 == 0 ? 6.0f : -6.0f);
  const at::Tensor x = test::make_batch(10, {200, 4000}, 1.0f, 0.0f).clamp_min(0);
  const auto noise = [&](const std::string& name) {
    ObserverArgs args = args_with(name, QScheme::kPerTensorSymmetric);
    args.quant_min = -7;
    args.quant_max = 7;
    const float scale = qparams_of(args, weight).scale[0];
    const at::Tensor rounded = (weight / scale).round().clamp(-7, 7) * scale;
    return x.matmul((rounded - weight).t()).square().sum().item<double>();
  };
  CHECK(noise("weight_mse") < 0.7 * noise("mse"));
  CHECK(noise("weight_mse") < noise("min_max"));
}

TEST_CASE("per_channel_mse: for inputs with a mean, outputs are closer than with min-max",
          "[annotate][observer]") {
  const at::Tensor weight = test::make_batch(9, {64, 48}, 1.0f, 0.0f);
  const at::Tensor x = test::make_batch(10, {500, 48}, 1.0f, 0.0f).clamp_min(0);
  const auto noise = [&](const std::string& name) {
    const QParams qparams = qparams_of(args_with(name, QScheme::kPerChannelSymmetric), weight);
    const at::Tensor scale = at::tensor(qparams.scale).unsqueeze(1);
    const at::Tensor rounded = (weight / scale).round().clamp(-128, 127) * scale;
    return x.matmul((rounded - weight).t()).square().sum().item<double>();
  };
  // 0.8 to 0.95 with the least squared error of the weights
  CHECK(noise("per_channel_mse") < 0.8 * noise("per_channel_min_max"));
}

TEST_CASE("per_channel_mse: a weight that gains next to nothing keeps its full ranges",
          "[annotate][observer]") {
  const at::Tensor row = at::arange(-1000, 1000) * 0.001f;
  const at::Tensor even = at::stack({row, row * 2.0f});
  const at::Tensor few = test::make_batch(7, {2, 9}, 1.0f, 0.0f);  // a scale may suit all of them
  const auto scales = [](const std::string& name, const at::Tensor& x) {
    return qparams_of(args_with(name, QScheme::kPerChannelSymmetric), x).scale;
  };
  CHECK(scales("per_channel_mse", even) == scales("per_channel_min_max", even));
  const std::vector<float> chosen = scales("per_channel_mse", few),
                           full = scales("per_channel_min_max", few);
  CHECK(chosen[0] != full[0]);
  CHECK(chosen[1] != full[1]);
}

TEST_CASE("a search that leaves hopeless ranges early finds what one without limit finds",
          "[annotate][observer]") {
  const at::Tensor x = with_outliers(-2, 4);
  const std::span<const float> values(x.const_data_ptr<float>(), static_cast<size_t>(x.numel()));
  const Lattice fine{4.0 / 127, -127, 127};
  const double whole = squared_error(values, fine);
  CHECK(squared_error(values, fine, whole) == whole);
  CHECK(squared_error(values, fine, whole / 2) > whole / 2);
  CHECK(squared_error(values, fine, whole / 2) < whole);
  const auto range_with = [&](bool is_limited) {
    return least_error_range(
        {-2, 4}, {.is_symmetric = true, .octaves = 4}, [&](const ValueRange& range, double limit) {
          const Lattice lattice{std::max(-range.min, range.max) / 127.0, -127, 127};
          return is_limited ? squared_error(values, lattice, limit)
                            : squared_error(values, lattice);
        });
  };
  CHECK(range_with(true).max == range_with(false).max);
}

TEST_CASE("mse: the error of a histogram is that of its values when they fill the bins evenly",
          "[annotate][observer]") {
  std::vector<float> counts(64);
  std::vector<float> values;
  for (size_t bin = 0; bin < counts.size(); ++bin) {
    const int count = static_cast<int>(1 + bin % 5);
    counts[bin] = static_cast<float>(1000 * count);
    for (int i = 0; i < 1000 * count; ++i)
      values.push_back(-3.0f +
                       0.125f * (static_cast<float>(bin) + (static_cast<float>(i) + 0.5f) /
                                                               static_cast<float>(1000 * count)));
  }
  for (const Lattice& lattice : {Lattice{0.5, -8, 7}, Lattice{0.03, -128, 127},
                                 Lattice{0.01, -128, 127}, Lattice{0.7, 0, 3}}) {
    INFO(lattice.scale);
    CHECK(squared_error(counts, -3.0, 0.125, lattice) ==
          Approx(squared_error(values, lattice)).epsilon(1e-3));
  }
}

TEST_CASE("percentile: as many values as asked for stay inside, at both ends or in magnitude",
          "[annotate][observer]") {
  const at::Tensor x = at::arange(0, 10000).to(at::kFloat) - 2000.0f;  // -2000 .. 7999
  const float bin = 9999.0f / 2048.0f;
  // -1950 .. 7949
  const QParams affine = qparams_of(percentile_args(99, QScheme::kPerTensorAffine), x);
  CHECK(affine.scale[0] * 255 == Approx(9899).margin(2 * bin));
  CHECK(-affine.scale[0] * static_cast<float>(affine.zero_point[0] + 128) ==
        Approx(-1950).margin(bin + affine.scale[0]));
  // |x| below 7899
  const QParams symmetric = qparams_of(percentile_args(99, QScheme::kPerTensorSymmetric), x);
  CHECK(symmetric.scale[0] * 127.5 == Approx(7899).margin(bin));
  // |x| below 1500
  const QParams half = qparams_of(percentile_args(30, QScheme::kPerTensorSymmetric), x);
  CHECK(half.scale[0] * 127.5 == Approx(1500).margin(bin));
  const QParams whole = qparams_of(percentile_args(100, QScheme::kPerTensorAffine), x);
  CHECK(whole.scale == qparams_of(args_with("min_max", QScheme::kPerTensorAffine), x).scale);
}

TEST_CASE("per_channel_percentile: exact on the values of each channel", "[annotate][observer]") {
  const at::Tensor row = at::arange(0, 1001).to(at::kFloat);
  const at::Tensor x = at::stack({row, row * -3.0f, row - 500.0f});
  const QParams symmetric = qparams_of(percentile_args(90, QScheme::kPerChannelSymmetric), x);
  CHECK(symmetric.scale[0] == Approx(900 / 127.5));
  CHECK(symmetric.scale[1] == Approx(2700 / 127.5));
  CHECK(symmetric.scale[2] == Approx(450 / 127.5));
  const QParams affine = qparams_of(percentile_args(90, QScheme::kPerChannelAffine), x);
  CHECK(affine.scale[0] == Approx(950.0 / 255));
  CHECK(affine.scale[1] == Approx(2850.0 / 255));
  CHECK(affine.scale[2] == Approx(900.0 / 255));
}

TEST_CASE("percentile and mse: constants, zeros and single values are kept",
          "[annotate][observer]") {
  for (const std::string name :
       {"mse", "percentile", "weight_mse", "per_channel_mse", "per_channel_percentile"})
    for (const float value : {0.0f, 3.0f, -0.5f})
      for (const int64_t count : {1, 100}) {
        INFO(name << " of " << count << " times " << value);
        const QScheme qscheme = name.starts_with("per_channel") ? QScheme::kPerChannelAffine
                                                                : QScheme::kPerTensorAffine;
        const at::Tensor x = at::full({1, count}, value);
        const QParams qparams = qparams_of(args_with(name, qscheme), x);
        CHECK(qparams.scale[0] > 0);
        CHECK(error_of(x, qparams) <= 1e-10 * static_cast<double>(count));
      }
}

TEST_CASE("percentile and mse: no data, NaN and infinities", "[annotate][observer]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::string name :
       {"mse", "percentile", "weight_mse", "per_channel_mse", "per_channel_percentile"}) {
    INFO(name);
    const bool is_channel = name.starts_with("per_channel");
    const bool is_weight = is_for_weights(name);
    const std::shared_ptr<Observer> observer = make_observer(
        args_with(name, is_channel ? QScheme::kPerChannelSymmetric : QScheme::kPerTensorAffine));
    observer->observe(at::empty({0, 3}));
    CHECK_FALSE(observer->has_data());
    CHECK(message_of([&] { observer->calculate_qparams(); }).find("saw no data") !=
          std::string::npos);
    CHECK(message_of([&] { observer->observe(at::tensor({1.0f, nan}).unsqueeze(0)); }) ==
          "calibrate: the observed values hold NaN");
    CHECK_FALSE(observer->has_data());
    const std::string message =
        message_of([&] { observer->observe(at::tensor({1.0f, infinity}).unsqueeze(0)); });
    CHECK(message == (is_weight
                          ? "calibrate: the observed values hold infinities, want finite numbers"
                          : "no error"));
    CHECK(observer->has_data() != is_weight);
  }
}

TEST_CASE(
    "percentile and mse: a state put into a fresh observer, and two halves merged, give the same "
    "scale",
    "[annotate][observer]") {
  const at::Tensor x = with_outliers(-3, 12);
  const at::Tensor weights = at::stack({x, x * 2.0f});
  for (const std::string name :
       {"mse", "percentile", "weight_mse", "per_channel_mse", "per_channel_percentile"}) {
    INFO(name);
    const bool is_channel = name.starts_with("per_channel");
    const ObserverArgs args =
        args_with(name, is_channel ? QScheme::kPerChannelSymmetric : QScheme::kPerTensorAffine);
    const std::shared_ptr<Observer> first = make_observer(args);
    first->observe(is_for_weights(name) ? weights : x);
    const std::shared_ptr<Observer> second = make_observer(args);
    second->set_state(first->state());
    CHECK(second->state() == first->state());
    CHECK(second->calculate_qparams().scale == first->calculate_qparams().scale);
    second->observe(is_for_weights(name) ? weights : x);
    CHECK(second->calculate_qparams().scale == first->calculate_qparams().scale);
    const std::shared_ptr<Observer> third = make_observer(args);
    third->merge(*make_observer(args));
    CHECK_FALSE(third->has_data());
    third->merge(*first);
    third->merge(*second);
    CHECK(third->calculate_qparams().scale == first->calculate_qparams().scale);
    third->set_state({});
    CHECK_FALSE(third->has_data());
  }
}

TEST_CASE("per-channel percentile and mse refuse tensors that change, and states of other tensors",
          "[annotate][observer]") {
  const ObserverArgs args = args_with("per_channel_mse", QScheme::kPerChannelSymmetric);
  const std::shared_ptr<Observer> observer = make_observer(args);
  observer->observe(at::full({2, 3}, 1.0f));
  CHECK(message_of([&] { observer->observe(at::full({2, 3}, 2.0f)); }) ==
        "calibrate: per_channel_mse looks at one constant tensor, got a second one; use "
        "moving_average_per_channel_min_max for what changes from batch "
        "to batch");
  const std::shared_ptr<Observer> whole =
      make_observer(args_with("weight_mse", QScheme::kPerTensorSymmetric));
  whole->observe(at::full({2, 3}, 1.0f));
  CHECK(message_of([&] { whole->observe(at::full({2, 3}, 2.0f)); }) ==
        "calibrate: weight_mse looks at one constant tensor, got a second one; use "
        "moving_average_min_max for what changes from batch to batch");
  const std::shared_ptr<Observer> other = make_observer(args);
  other->observe(at::full({2, 3}, 2.0f));
  CHECK(message_of([&] { observer->merge(*other); }) ==
        "state: observer \"per_channel_mse\": the two saw different tensors, want the same "
        "weights; calibrate the same model");
  CHECK(message_of([&] {
          make_observer(percentile_args(99, QScheme::kPerTensorAffine))
              ->merge(*make_observer(named("percentile")));
        }) ==
        "state: observer \"percentile\": observers with different channel axis, bins, averaging "
        "constant, granularity or percentile cannot be merged");
}

TEST_CASE("percentile and mse refuse bad arguments", "[annotate][observer]") {
  for (const double percentile : {0.0, -1.0, 100.5, std::numeric_limits<double>::quiet_NaN()})
    for (const QScheme qscheme : {QScheme::kPerTensorAffine, QScheme::kPerChannelSymmetric}) {
      const ObserverArgs args = percentile_args(percentile, qscheme);
      std::ostringstream want;
      want << "prepare: " << args.choice.name << ": percentile out of range, got " << percentile
           << ", want more than 0 and at most 100";
      CHECK(message_of([&] { make_observer(args); }) == want.str());
    }
  CHECK(
      message_of([] { make_observer(args_with("per_channel_mse", QScheme::kPerTensorAffine)); }) ==
      "prepare: per_channel_mse: this observer works per channel, got qscheme per_tensor_affine; "
      "use weight_mse");
  CHECK(message_of([] { make_observer(args_with("mse", QScheme::kPerChannelAffine)); }) ==
        "prepare: mse: this observer works per tensor, got qscheme per_channel_affine; use "
        "per_channel_mse");
  CHECK(message_of([] { make_observer(args_with("percentile", QScheme::kPerChannelAffine)); }) ==
        "prepare: percentile: this observer works per tensor, got qscheme per_channel_affine; use "
        "per_channel_percentile");
  CHECK(message_of([] {
          make_observer(args_with("per_channel_mse", QScheme::kPerChannelAffineFloatQParams));
        }) ==
        "prepare: per_channel_mse: this observer has whole zero points, got qscheme "
        "per_channel_affine_float_qparams; use per_channel_min_max");
}

}  // namespace
}  // namespace octet::test_accuracy_observers

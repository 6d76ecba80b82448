// The histogram's loops equal the ATen ops that they replace, to the bit.
#include <algorithm>
#include <cmath>
#include <random>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/histc.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "annotate/observers/histogram.h"
#include "annotate/observers/kernels.h"
#include "annotate/observers/observer_cases.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_histogram_kernels {
namespace {

std::span<const float> span_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

at::Tensor random_values(std::mt19937& random, int64_t count) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  at::Tensor values = test::make_batch(static_cast<uint32_t>(random()), {count},
                                       std::exp2(10 * uniform(random)), 5 * uniform(random));
  if (random() % 3 == 0) values = values.clamp_min(0);
  if (random() % 3 == 0) values = (values * 16).round() / 16;
  return values;
}

TEST_CASE("histogram: counting equals aten::histc for random data, ranges and bins",
          "[annotate][histogram]") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const at::Tensor values = random_values(random, 3001);
    const float margin = random() % 2 == 0 ? 0.0f : 0.37f;
    const float low = values.min().item<float>() - margin;
    const float high = values.max().item<float>() + margin;
    const int64_t bins = std::vector<int64_t>{2048, 256, 999, 1000, 7}[random() % 5];
    if (low == high) continue;
    REQUIRE(can_count_into_bins(low, high, static_cast<size_t>(bins)));
    std::vector<uint32_t> counts(static_cast<size_t>(bins));
    count_into_bins(span_of(values), low, high, counts);
    const at::Tensor want = at::histc(values, bins, low, high);
    CHECK(std::vector<float>(counts.begin(), counts.end()) ==
          std::vector<float>(span_of(want).begin(), span_of(want).end()));
  }
}

TEST_CASE("histogram: ranges that the loops cannot handle are recognized",
          "[annotate][histogram]") {
  CHECK_FALSE(can_count_into_bins(1.0f, 1.0f, 2048));
  CHECK_FALSE(can_count_into_bins(-3e38f, 3e38f, 2048));
  CHECK_FALSE(can_count_into_bins(0.0f, 3e38f, 2048));
  HistogramObserver observer(test::named("histogram"));
  observer.observe(at::tensor({0.0f, 3e38f}));
  CHECK(observer.state().max == std::vector<float>{3e38f});
}

TEST_CASE("histogram: spreading equals bucketize and bincount for random ranges",
          "[annotate][histogram]") {
  std::mt19937 random(8);
  std::uniform_real_distribution<float> uniform(0, 1);
  constexpr int64_t kBins = 512;
  constexpr int64_t kFine = kBins * 16;
  for (int trial = 0; trial < 100; ++trial) {
    const float low = 10 * uniform(random) - 5;
    const float high = low + std::exp2(20 * uniform(random) - 18);  // down to a range of few ulps
    const float new_low = low - uniform(random) * static_cast<float>(trial % 3);
    const float new_high = high + uniform(random) * static_cast<float>(trial % 4);
    if (!(low < high)) continue;
    const at::Tensor counts =
        test::make_batch(static_cast<uint32_t>(random()), {kBins}, 100, 0).clamp_min(0).round();
    const float half = 0.5f * ((high - low) / static_cast<float>(kFine));
    const at::Tensor points = at::linspace(low, high, kFine + 1, at::kFloat);
    const at::Tensor boundaries = at::linspace(new_low, new_high, kBins + 1, at::kFloat);
    const at::Tensor place =
        (at::bucketize(points.slice(0, 0, kFine) + half, boundaries, false, true) - 1)
            .clamp(0, kBins - 1);
    const at::Tensor want = at::bincount(place, counts.repeat_interleave(16) / 16, kBins);
    at::Tensor got = at::zeros({kBins}, at::kFloat);
    spread_counts(span_of(counts), 16, span_of(points).first(kFine), half, span_of(boundaries),
                  {got.data_ptr<float>(), kBins});
    CHECK(got.equal(want));
  }
}

TEST_CASE("histogram: errors of the bins are those of the formula", "[annotate][histogram]") {
  std::mt19937 random(9);
  std::vector<float> density(256);
  for (float& value : density) value = static_cast<float>(random() % 100);
  const ErrorRange range{.start_bin = 20,
                         .width = 0.01f,
                         .dst_width = 0.007f,
                         .half_dst_width = 0.0035f,
                         .last = 255.0f};
  std::vector<float> errors(256);
  quantization_errors(density, range, errors);
  for (size_t i = 0; i < errors.size(); ++i) {
    const float begin = static_cast<float>(static_cast<int>(i) - 20) * 0.01f;
    const auto bin = [](float x) {
      return static_cast<float>(
          std::clamp(std::floor(static_cast<double>(x) / static_cast<double>(0.007f)), 0.0, 255.0));
    };
    const auto norm = [&](float a, float b) {
      return density[i] * ((b * b * b - a * a * a) / 3.0f);
    };
    const float end = begin + 0.01f;
    float want = norm(begin - (bin(begin) + 0.5f) * 0.007f, 0.0035f);
    want += (bin(end) - bin(begin) - 1.0f) * norm(-0.0035f, 0.0035f);
    want += norm(-0.0035f, end - (bin(end) * 0.007f + 0.0035f));
    CHECK(errors[i] == Approx(want).margin(1e-9));
  }
}

TEST_CASE("histogram: more than 2^24 values in a bin are counted", "[annotate][histogram]") {
  at::Tensor x = at::zeros({(1 << 24) + 10}, at::kFloat);
  x[0] = 1.0f;
  HistogramObserver observer(test::named("histogram"));
  observer.observe(x);
  CHECK(observer.state().histogram.front() == 16777224.0f);  // 2^24 + 9, rounded to even
  CHECK(observer.state().histogram.back() == 1.0f);
}

TEST_CASE("histogram: the number of threads changes no count", "[annotate][histogram]") {
  const at::Tensor x = test::make_batch(5, {500000}, 3, 1);
  const int threads = at::get_num_threads();
  std::vector<ObserverState> states;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    HistogramObserver observer(test::named("histogram"));
    observer.observe(x);
    observer.observe(x.slice(0, 0, 300000) * 2);
    states.push_back(observer.state());
  }
  at::set_num_threads(threads);
  CHECK(states[0] == states[1]);
  CHECK(states[0] == states[2]);
}

TEST_CASE("histogram: tensors that are not contiguous are counted in full",
          "[annotate][histogram]") {
  const at::Tensor x = test::make_batch(3, {20, 30}, 1, 0);
  HistogramObserver transposed(test::named("histogram")), sliced(test::named("histogram")),
      copied(test::named("histogram")), plain(test::named("histogram"));
  plain.observe(x);
  transposed.observe(x.t());
  CHECK(transposed.state() == plain.state());
  sliced.observe(x.slice(1, 0, 30, 2));
  copied.observe(x.slice(1, 0, 30, 2).contiguous());
  CHECK(sliced.state() == copied.state());
}

TEST_CASE("histogram: the sign bit counts", "[annotate][histogram]") {
  const at::Tensor x = test::make_batch(3, {20, 30}, 1, 2);
  HistogramObserver plain(test::named("histogram")), marked(test::named("histogram"));
  plain.observe(-x);
  marked.observe(at::_neg_view(x));
  CHECK(marked.state() == plain.state());
}

}  // namespace
}  // namespace octet::test_histogram_kernels

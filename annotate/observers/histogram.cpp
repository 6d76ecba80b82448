// Searches for the range as torchao does: from the full range, it drops 1e-5 of the values at a
// time, from the end where these span more bins, as long as the error of quantization falls. So an
// outlier far from the rest is dropped first.
//
// Float order follows torchao's HistogramObserver exactly: f32 where it computes on tensors, f64
// where it computes on Python numbers. Compiled with -ffp-contract=off (core/CMakeLists.txt).
#include "annotate/observers/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/histc.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "annotate/observers/kernels.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr int kUpsampleRate = 16;
// share of the values that one step of the search drops
constexpr double kStep = 1e-5;
constexpr int64_t kGrain = int64_t{1} << 16;  // values that are worth a thread

}  // namespace

HistogramObserver::HistogramObserver(ObserverArgs args, const std::string& alternative)
    : Observer(std::move(args)), bins_(args_.choice.bins) {
  const auto refuse = [this](const std::string& message) {
    throw Error("prepare", args_.choice.name, message);
  };
  if (is_per_channel(args_.qscheme))
    refuse(fmt::format("this observer works per tensor, got qscheme {}; use {}",
                       name_of(args_.qscheme), alternative));
  if (args_.is_dynamic) refuse("this observer cannot serve dynamic quantization; use placeholder");
  if (!is_integer(args_.dtype))
    refuse(fmt::format("this observer serves integer dtypes, got {}; use min_max",
                       name_of(args_.dtype)));
  if (bins_ < 2) refuse(fmt::format("too few bins, got {}, want at least 2", bins_));
  dst_bins_ = std::ldexp(1.0, static_cast<int>(8 * size_of(args_.dtype)));
  histogram_ = at::zeros({bins_}, at::kFloat);
}

void HistogramObserver::observe(const at::Tensor& input) {
  if (input.numel() == 0) return;
  at::Tensor x = input.detach().to(at::kFloat);
  auto [low, high] = at::aminmax(x);
  if (std::isnan(low.item<float>())) throw Error("calibrate", "", "the observed values hold NaN");
  if (std::isinf(low.item<float>()) || std::isinf(high.item<float>())) {
    x = at::masked_select(x, x.abs() != std::numeric_limits<float>::infinity());
    if (x.numel() == 0) return;
    std::tie(low, high) = at::aminmax(x);
  }
  float new_min = low.item<float>();
  float new_max = high.item<float>();
  if (has_data_) {
    new_min = std::min(min_, new_min);
    new_max = std::max(max_, new_max);
  }
  at::Tensor histogram = has_data_ ? over(new_min, new_max) : at::zeros({bins_}, at::kFloat);
  add_counts(x, new_min, new_max, histogram);
  set(std::move(histogram), new_min, new_max);
}

void HistogramObserver::set(at::Tensor histogram, float min, float max) {
  histogram_ = std::move(histogram);
  min_ = min;
  max_ = max;
  has_data_ = true;
  cache_ = std::make_shared<Cache>();
}

// Adds what aten::histc returns, several times as fast and on all threads; the order of integer
// additions does not matter.
void HistogramObserver::add_counts(const at::Tensor& x, float low, float high,
                                   at::Tensor& histogram) const {
  const size_t bins = static_cast<size_t>(bins_);
  if (!can_count_into_bins(low, high, bins)) {
    histogram.add_(at::histc(x, bins_, low, high));
    return;
  }
  // the order of values does not matter either
  const at::Tensor plain = x.resolve_neg();
  const at::Tensor dense = plain.is_non_overlapping_and_dense() ? plain : plain.contiguous();
  const float* values = dense.const_data_ptr<float>();
  std::vector<uint32_t> counts(bins);
  std::mutex mutex;
  if (dense.numel() <= kGrain) {
    count_into_bins({values, static_cast<size_t>(dense.numel())}, low, high, counts);
  } else {
    at::parallel_for(0, dense.numel(), kGrain, [&](int64_t begin, int64_t end) {
      std::vector<uint32_t> part(bins);
      count_into_bins({values + begin, static_cast<size_t>(end - begin)}, low, high, part);
      const std::lock_guard<std::mutex> lock(mutex);
      for (size_t i = 0; i < bins; ++i) counts[i] += part[i];
    });
  }
  float* sums = histogram.data_ptr<float>();
  for (size_t i = 0; i < bins; ++i) sums[i] += static_cast<float>(counts[i]);
}

// The histogram over a range that contains its own.
at::Tensor HistogramObserver::over(float new_min, float new_max) const {
  if (new_min == min_ && new_max == max_) return histogram_.clone();
  if (min_ == max_)
    return at::histc(at::full({}, min_, at::kFloat), bins_, new_min, new_max) * at::sum(histogram_);
  const int64_t fine_bins = int64_t{bins_} * kUpsampleRate;
  const float bin_size = (max_ - min_) / static_cast<float>(fine_bins);
  const at::Tensor points = at::linspace(min_, max_, fine_bins + 1, at::kFloat);
  const at::Tensor boundaries = at::linspace(new_min, new_max, bins_ + 1, at::kFloat);
  at::Tensor result = at::zeros({bins_}, at::kFloat);
  const size_t bins = static_cast<size_t>(bins_);
  spread_counts({histogram_.const_data_ptr<float>(), bins}, kUpsampleRate,
                {points.const_data_ptr<float>(), static_cast<size_t>(fine_bins)}, 0.5f * bin_size,
                {boundaries.const_data_ptr<float>(), bins + 1}, {result.data_ptr<float>(), bins});
  return result;
}

void HistogramObserver::merge(const Observer& other) {
  check_mergeable(other);
  const HistogramObserver& next = dynamic_cast<const HistogramObserver&>(other);
  if (!next.has_data_) return;
  if (!has_data_) return set(next.histogram_.clone(), next.min_, next.max_);
  const float low = std::min(min_, next.min_);
  const float high = std::max(max_, next.max_);
  set(over(low, high) + next.over(low, high), low, high);
}

// The sum of squared errors when the bins from start_bin to end_bin span the quantized range.
double HistogramObserver::quantization_error(const at::Tensor& density, at::Tensor& errors,
                                             int start_bin, int end_bin) const {
  const double bin_width = (static_cast<double>(max_) - static_cast<double>(min_)) / bins_;
  const double dst_bin_width = bin_width * (end_bin - start_bin + 1) / dst_bins_;
  if (dst_bin_width == 0.0) return 0.0;
  const ErrorRange range{.start_bin = start_bin,
                         .width = static_cast<float>(bin_width),
                         .dst_width = static_cast<float>(dst_bin_width),
                         .half_dst_width = static_cast<float>(dst_bin_width / 2),
                         .last = static_cast<float>(dst_bins_ - 1)};
  const size_t bins = static_cast<size_t>(bins_);
  quantization_errors({density.const_data_ptr<float>(), bins}, range,
                      {errors.data_ptr<float>(), bins});
  return at::sum(errors).item<double>();
}

HistogramObserver::Range HistogramObserver::search_range() const {
  const double total = at::sum(histogram_).item<double>();
  const at::Tensor cumulative = at::cumsum(histogram_, 0);
  const float* sums = cumulative.data_ptr<float>();
  const float width =
      static_cast<float>((static_cast<double>(max_) - static_cast<double>(min_)) / bins_);
  at::Tensor density = at::empty({bins_}, at::kFloat);
  for (int i = 0; i < bins_; ++i)
    density.data_ptr<float>()[i] = histogram_.const_data_ptr<float>()[i] / width;
  at::Tensor errors = at::empty({bins_}, at::kFloat);
  double alpha = 0.0;
  double beta = 1.0;
  int start_bin = 0;
  int end_bin = bins_ - 1;
  double least_error = std::numeric_limits<double>::infinity();
  while (alpha < beta) {
    const double next_alpha = alpha + kStep;
    const double next_beta = beta - kStep;
    const float left_sum = static_cast<float>(next_alpha * total);
    const float right_sum = static_cast<float>(next_beta * total);
    int left = start_bin;
    int right = end_bin;
    while (left < end_bin && sums[left] < left_sum) ++left;
    while (right > start_bin && sums[right] > right_sum) --right;
    int next_start = start_bin;
    int next_end = end_bin;
    if (left - start_bin > end_bin - right) {
      next_start = left;
      alpha = next_alpha;
    } else {
      next_end = right;
      beta = next_beta;
    }
    if (next_start == start_bin && next_end == end_bin) continue;
    const double error = quantization_error(density, errors, next_start, next_end);
    if (error > least_error) break;
    least_error = error;
    start_bin = next_start;
    end_bin = next_end;
  }
  const float bin_width = (max_ - min_) / static_cast<float>(bins_);
  return {min_ + bin_width * static_cast<float>(start_bin),
          min_ + bin_width * static_cast<float>(end_bin + 1)};
}

QParams HistogramObserver::calculate_qparams() const {
  if (!has_data_)
    throw Error(
        "convert", "",
        "the observer saw no data, got 0 samples, want at least 1; calibrate before converting");
  const std::lock_guard<std::mutex> lock(cache_->mutex);
  if (!cache_->qparams) {
    const Range range = choose_range();
    cache_->qparams = choose_qparams({&range.min, 1}, {&range.max, 1}, target(), args_.choice.name);
  }
  return *cache_->qparams;
}

void HistogramObserver::allow_finer_scales(std::vector<float> least) {
  cache_ = std::make_shared<Cache>();
  Observer::allow_finer_scales(std::move(least));
}

ObserverState HistogramObserver::state() const {
  if (!has_data_) return {};
  const float* counts = histogram_.const_data_ptr<float>();
  return {.min = {min_}, .max = {max_}, .histogram = {counts, counts + bins_}};
}

void HistogramObserver::set_state(const ObserverState& state) {
  if (state.min.empty()) {
    has_data_ = false;
    return;
  }
  if (state.min.size() != 1 || state.max.size() != 1 ||
      state.histogram.size() != static_cast<size_t>(bins_))
    throw Error("state", args_.choice.name,
                fmt::format("a histogram of another size, got {} bins, want {}",
                            state.histogram.size(), bins_));
  at::Tensor histogram = at::empty({bins_}, at::kFloat);
  std::ranges::copy(state.histogram, histogram.data_ptr<float>());
  set(std::move(histogram), state.min[0], state.max[0]);
}

}  // namespace octet

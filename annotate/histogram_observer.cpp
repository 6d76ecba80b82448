// Float order follows torchao's HistogramObserver exactly: f32 where it computes on tensors, f64 where it computes on Python numbers. This file is
// compiled without contraction of multiplications and additions.
#include "annotate/histogram_observer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/histc.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "core/error.h"

namespace octet {
namespace {

constexpr int kUpsampleRate = 16;
constexpr double kStep = 1e-5;  // share of the values that one step of the search gives up

// density * integral of x^2 from begin to end.
float norm(float begin, float end, float density) { return density * ((end * end * end - begin * begin * begin) / 3.0f); }

// floor(a / b) clamped to [0, last]. The quotient of two floats, rounded to double, has the floor of the exact one below 2^28; beyond, the
// clamp decides.
float bin_of(float a, float b, float last) {
  const double quotient = std::floor(static_cast<double>(a) / static_cast<double>(b));
  return static_cast<float>(std::clamp(quotient, 0.0, static_cast<double>(last)));
}

}  // namespace

HistogramObserver::HistogramObserver(ObserverArgs args) : Observer(std::move(args)), bins_(args_.choice.bins) {
  const auto refuse = [this](const std::string& message) { throw Error("prepare", args_.choice.name, message); };
  if (is_per_channel(args_.qscheme))
    refuse(fmt::format("this observer works per tensor, got qscheme {}; use per_channel_min_max", name_of(args_.qscheme)));
  if (args_.is_dynamic) refuse("this observer cannot serve dynamic quantization; use placeholder");
  if (!is_integer(args_.dtype)) refuse(fmt::format("this observer serves integer dtypes, got {}; use min_max", name_of(args_.dtype)));
  if (bins_ < 2) refuse(fmt::format("too few bins, got {}, want at least 2", bins_));
  dst_bins_ = std::ldexp(1.0, static_cast<int>(8 * size_of(args_.dtype)));
  histogram_ = at::zeros({bins_}, at::kFloat);
  errors_ = at::empty({bins_}, at::kFloat);
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
  if (!has_data_) {
    histogram_ = at::histc(x, bins_, new_min, new_max);
  } else {
    new_min = std::min(min_, new_min);
    new_max = std::max(max_, new_max);
    histogram_ = combine(at::histc(x, bins_, new_min, new_max), new_min, new_max);
  }
  has_data_ = true;
  min_ = new_min;
  max_ = new_max;
}

// `update` lies over [new_min, new_max]; the old histogram is brought there and added.
at::Tensor HistogramObserver::combine(const at::Tensor& update, float new_min, float new_max) const {
  if (new_min == min_ && new_max == max_) return histogram_ + update;
  if (min_ == max_) {
    const at::Tensor place = at::histc(at::full({}, min_, at::kFloat), bins_, new_min, new_max);
    return place * at::sum(histogram_) + update;
  }
  return update + spread_over(new_min, new_max);
}

at::Tensor HistogramObserver::spread_over(float new_min, float new_max) const {
  const at::Tensor fine = histogram_.repeat_interleave(kUpsampleRate) / kUpsampleRate;
  const int64_t fine_bins = int64_t{bins_} * kUpsampleRate;
  const float bin_size = (max_ - min_) / static_cast<float>(fine_bins);
  const at::Tensor mid_points = at::linspace(min_, max_, fine_bins + 1, at::kFloat).slice(0, 0, fine_bins) + 0.5f * bin_size;
  const at::Tensor boundaries = at::linspace(new_min, new_max, bins_ + 1, at::kFloat);
  const at::Tensor place = (at::bucketize(mid_points, boundaries, /*out_int32=*/false, /*right=*/true) - 1).clamp(0, bins_ - 1);
  return at::bincount(place, fine, bins_);
}

// The sum of squared errors when the bins from start_bin to end_bin span the quantized range.
double HistogramObserver::quantization_error(int start_bin, int end_bin) const {
  const double bin_width = (static_cast<double>(max_) - static_cast<double>(min_)) / bins_;
  const double dst_bin_width = bin_width * (end_bin - start_bin + 1) / dst_bins_;
  if (dst_bin_width == 0.0) return 0.0;
  const float width = static_cast<float>(bin_width);
  const float dst_width = static_cast<float>(dst_bin_width);
  const float half = static_cast<float>(dst_bin_width / 2);
  const float last = static_cast<float>(dst_bins_ - 1);
  const float* counts = histogram_.data_ptr<float>();
  float* errors = errors_.data_ptr<float>();
  for (int i = 0; i < bins_; ++i) {
    const float begin = static_cast<float>(i - start_bin) * width;
    const float end = begin + width;
    const float bin_of_begin = bin_of(begin, dst_width, last);
    const float bin_of_end = bin_of(end, dst_width, last);
    const float density = counts[i] / width;
    const float center_of_begin = (bin_of_begin + 0.5f) * dst_width;
    const float center_of_end = bin_of_end * dst_width + half;
    float error = norm(begin - center_of_begin, half, density);
    error += (bin_of_end - bin_of_begin - 1.0f) * norm(-half, half, density);
    error += norm(-half, end - center_of_end, density);
    errors[i] = error;
  }
  return at::sum(errors_).item<double>();
}

HistogramObserver::Range HistogramObserver::search_range() const {
  const double total = at::sum(histogram_).item<double>();
  const at::Tensor cumulative = at::cumsum(histogram_, 0);
  const float* sums = cumulative.data_ptr<float>();
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
    const double error = quantization_error(next_start, next_end);
    if (error > least_error) break;
    least_error = error;
    start_bin = next_start;
    end_bin = next_end;
  }
  const float bin_width = (max_ - min_) / static_cast<float>(bins_);
  return {min_ + bin_width * static_cast<float>(start_bin), min_ + bin_width * static_cast<float>(end_bin + 1)};
}

QParams HistogramObserver::calculate_qparams() const {
  if (!has_data_) throw Error("convert", "", "the observer saw no data, got 0 samples, want at least 1; calibrate before converting");
  const Range range = search_range();
  return choose_qparams({&range.min, 1}, {&range.max, 1}, target(), args_.choice.name);
}

ObserverState HistogramObserver::state() const {
  if (!has_data_) return {};
  const float* counts = histogram_.data_ptr<float>();
  return {
      {min_},
      {      max_   },
      { counts,    counts + bins_}
  };
}

void HistogramObserver::set_state(const ObserverState& state) {
  has_data_ = !state.min.empty();
  if (!has_data_) return;
  if (state.min.size() != 1 || state.max.size() != 1 || state.histogram.size() != static_cast<size_t>(bins_))
    throw Error("state", args_.choice.name, fmt::format("a histogram of another size, got {} bins, want {}", state.histogram.size(), bins_));
  min_ = state.min[0];
  max_ = state.max[0];
  histogram_ = at::empty({bins_}, at::kFloat);
  std::copy(state.histogram.begin(), state.histogram.end(), histogram_.data_ptr<float>());
}

}  // namespace octet

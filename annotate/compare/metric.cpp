#include "annotate/compare/metric.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/user_code.h"

namespace octet {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// Blocks have a fixed size, so sums do not depend on the number of threads.
constexpr int64_t kBlock = 1 << 14;

// Sums in lanes, which the compiler turns into vectors.
constexpr int64_t kLanes = 8;

ErrorStats stats_of(const float* reference, const float* subject, int64_t count) {
  double signal[kLanes] = {}, energy[kLanes] = {}, product[kLanes] = {}, noise[kLanes] = {};
  float largest[kLanes] = {};
  const auto add = [&](int64_t i, int64_t lane) {
    const double r = reference[i], s = subject[i], difference = r - s;
    signal[lane] += r * r;
    energy[lane] += s * s;
    product[lane] += r * s;
    noise[lane] += difference * difference;
    const float distance = std::abs(reference[i] - subject[i]);
    largest[lane] = distance > largest[lane] ? distance : largest[lane];
  };
  int64_t done = 0;
  for (; done + kLanes <= count; done += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) add(done + lane, lane);
  for (; done < count; ++done) add(done, 0);
  ErrorStats stats{.elements = count};
  for (int64_t lane = 0; lane < kLanes; ++lane)
    stats.merge({.signal = signal[lane],
                 .energy = energy[lane],
                 .product = product[lane],
                 .noise = noise[lane],
                 .largest = largest[lane]});
  // NaN and infinities leave NaN in a sum. Only then look at each element.
  if (std::isfinite(stats.signal + stats.energy)) return stats;
  stats = {.elements = count};
  for (int64_t i = 0; i < count; ++i) {
    const double r = reference[i], s = subject[i];
    if (std::isfinite(r) && std::isfinite(s)) {
      stats.signal += r * r;
      stats.energy += s * s;
      stats.product += r * s;
      stats.noise += (r - s) * (r - s);
      stats.largest = std::max(stats.largest, std::abs(r - s));
    } else if (r != s && !(std::isnan(r) && std::isnan(s))) {
      ++stats.strange;
    }
  }
  return stats;
}

struct MetricRow {
  std::string name;
  Metric metric;
};

std::vector<MetricRow>& metric_rows() {
  static std::vector<MetricRow> all;
  return all;
}

const MetricRow* find_row(const std::string& name) {
  const std::vector<MetricRow>& all = metric_rows();
  const auto found =
      std::ranges::find_if(all, [&](const MetricRow& row) { return row.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

double ErrorStats::sqnr_db() const {
  if (!has_data()) return kNothing;
  if (strange > 0) return -kInfinite;
  if (noise == 0) return kInfinite;
  return 10 * std::log10(signal / noise);
}

double ErrorStats::mse() const {
  return has_data() ? noise / static_cast<double>(elements) : kNothing;
}

double ErrorStats::cosine() const {
  if (!has_data()) return kNothing;
  if (signal == 0 && energy == 0) return 1;
  return signal == 0 || energy == 0 ? 0 : product / std::sqrt(signal * energy);
}

double ErrorStats::relative() const {
  if (strange > 0) return kInfinite;
  return noise == 0 ? 0 : noise / signal;
}

void ErrorStats::merge(const ErrorStats& other) {
  signal += other.signal;
  energy += other.energy;
  product += other.product;
  noise += other.noise;
  largest = std::max(largest, other.largest);
  elements += other.elements;
  strange += other.strange;
}

ErrorStats compare_tensors(const at::Tensor& reference, const at::Tensor& subject) {
  if (!at::are_expandable(reference.sizes(), subject.sizes()))
    throw Error(
        "compare", "a tensor",
        fmt::format("has the shape [{}] in one program and [{}] in the other; give programs "
                    "of the same model",
                    fmt::join(reference.sizes(), ", "), fmt::join(subject.sizes(), ", ")));
  const std::vector<int64_t> sizes = at::infer_size(reference.sizes(), subject.sizes());
  const auto as_floats = [&](const at::Tensor& tensor) {
    return tensor.expand(sizes).to(at::kFloat).resolve_neg().contiguous();
  };
  const at::Tensor r = as_floats(reference), s = as_floats(subject);
  const int64_t blocks = (r.numel() + kBlock - 1) / kBlock;
  std::vector<ErrorStats> parts(static_cast<size_t>(blocks));
  at::parallel_for(0, blocks, 4, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kBlock;
      parts[static_cast<size_t>(block)] =
          stats_of(r.const_data_ptr<float>() + first, s.const_data_ptr<float>() + first,
                   std::min(kBlock, r.numel() - first));
    }
  });
  ErrorStats stats;
  for (const ErrorStats& part : parts) stats.merge(part);
  return stats;
}

void register_metric(const std::string& name, Metric metric) {
  const std::string subject = fmt::format("\"{}\"", name);
  if (name.empty() || name.find_first_of("/, \n") != std::string::npos)
    throw Error("metric", subject,
                "cannot be the name of a metric, want one without slash, comma and space");
  if (!metric) throw Error("metric", subject, "got no function; register one");
  if (find_row(name) != nullptr)
    throw Error("metric", subject, "the name is taken; choose another one");
  metric_rows().push_back({name, std::move(metric)});
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const MetricRow& row : metric_rows()) names.push_back(row.name);
  return names;
}

Metric find_metric(const std::string& name) {
  const MetricRow* row = find_row(name);
  if (row == nullptr)
    throw Error("metric", name,
                metric_names().empty()
                    ? std::string("no metric is registered; give the --library that has it")
                    : fmt::format("unknown, want one of {}", fmt::join(metric_names(), ", ")));
  return [name, metric = row->metric](const at::Tensor& reference, const at::Tensor& subject) {
    return in_user_code(
        "metric", name,
        fmt::format("for tensors of shape [{}], its function", fmt::join(reference.sizes(), ", ")),
        [&] { return metric(reference, subject); });
  };
}

}  // namespace octet

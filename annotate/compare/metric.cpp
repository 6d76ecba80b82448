#include "annotate/compare/metric.h"

#include <algorithm>
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

// Blocks have a fixed size, so sums do not depend on the number of threads.
constexpr int64_t kBlock = 1 << 14;

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
          error_stats(r.const_data_ptr<float>() + first, s.const_data_ptr<float>() + first,
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

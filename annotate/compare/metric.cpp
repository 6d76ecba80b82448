#include "annotate/compare/metric.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"

namespace octet {
namespace {

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
      std::find_if(all.begin(), all.end(), [&](const MetricRow& row) { return row.name == name; });
  return found == all.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_tensors(const std::string& name, const at::Tensor& tensor,
                                 const std::string& said) {
  throw Error("metric", name,
              fmt::format("of tensors of shape [{}] it says: {}; return NaN for tensors that it "
                          "cannot judge",
                          fmt::join(tensor.sizes(), ", "), said.substr(0, said.find('\n'))));
}

}  // namespace

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
    try {
      return metric(reference, subject);
    } catch (const std::exception& error) {
      refuse_tensors(name, reference, error.what());
    } catch (...) {
      refuse_tensors(name, reference, "something that is no std::exception was thrown");
    }
  };
}

}  // namespace octet

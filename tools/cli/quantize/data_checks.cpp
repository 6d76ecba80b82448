#include "tools/cli/quantize/data_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "core/pt2/archive.h"

namespace octet {
namespace {

constexpr std::string_view kSamples = "data/sample_inputs/";

bool is_same(const c10::IValue& a, const c10::IValue& b) {
  if (a.isTensor() && b.isTensor())
    return a.toTensor().defined() && b.toTensor().defined() &&
           at::equal(a.toTensor(), b.toTensor());
  return a.tagKind() == b.tagKind();
}

// The common value of all elements of a float tensor; nullopt if they differ.
std::optional<double> only_value(const c10::IValue& input) {
  if (!input.isTensor() || !input.toTensor().defined() || !input.toTensor().is_floating_point() ||
      input.toTensor().numel() < 2)
    return std::nullopt;
  const at::Tensor& tensor = input.toTensor();
  const at::Tensor first = tensor.flatten()[0];
  return tensor.eq(first).all().item<bool>() ? std::optional(first.item<double>()) : std::nullopt;
}

// The range of the float values of one input over all batches.
struct Range {
  double min = std::numeric_limits<double>::infinity(),
         max = -std::numeric_limits<double>::infinity();
  double width() const { return max - min; }
};

Range range_of(const SampleReader& data, size_t input) {
  Range range;
  for (size_t i = 0; i < data.size(); ++i) {
    const std::vector<c10::IValue> batch = data.at(i);
    if (batch.size() <= input || !batch[input].isTensor()) continue;
    const at::Tensor& tensor = batch[input].toTensor();
    if (!tensor.defined() || !tensor.is_floating_point() || tensor.numel() == 0) continue;
    range.min = std::min(range.min, tensor.min().item<double>());
    range.max = std::max(range.max, tensor.max().item<double>());
  }
  return range;
}

// The share of values outside the range, in [0, 1].
double share_outside(const SampleReader& data, size_t input, const Range& range) {
  double outside = 0, all = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    const std::vector<c10::IValue> batch = data.at(i);
    if (batch.size() <= input || !batch[input].isTensor()) continue;
    const at::Tensor& tensor = batch[input].toTensor();
    outside += tensor.lt(range.min).logical_or(tensor.gt(range.max)).sum().item<double>();
    all += static_cast<double>(tensor.numel());
  }
  return all == 0 ? 0 : outside / all;
}

}  // namespace

std::vector<std::string> find_distant_data(const SampleReader& calibration,
                                           const SampleReader& data) {
  constexpr double kMostOutside = 0.01, kLeastWidth = 0.125;
  std::vector<std::string> lines;
  const size_t inputs = std::min(calibration.at(0).size(), data.at(0).size());
  for (size_t input = 0; input < inputs; ++input) {
    const Range known = range_of(calibration, input), now = range_of(data, input);
    if (!(known.width() > 0) || !(now.width() >= 0) || !std::isfinite(now.width())) continue;
    const std::string ranges =
        fmt::format("{:.4g} .. {:.4g}, while the calibration data has {:.4g} .. {:.4g}", now.min,
                    now.max, known.min, known.max);
    const double outside = share_outside(data, input, known);
    if (outside > kMostOutside)
      lines.push_back(
          fmt::format("evaluate: input {} has {}: {:.0f} % of its values are outside and will be "
                      "cut off; preprocess both in the same way",
                      input, ranges, 100 * outside));
    else if (now.width() < kLeastWidth * known.width())
      lines.push_back(fmt::format(
          "evaluate: input {} has {}: it uses few of the integers; preprocess both in the same way",
          input, ranges));
  }
  return lines;
}

std::vector<std::string> find_odd_data(const SampleReader& data) {
  std::vector<std::string> lines;
  const std::vector<c10::IValue> first = data.at(0);
  for (size_t input = 0; input < first.size(); ++input) {
    const std::optional<double> value = only_value(first[input]);
    bool is_constant = value.has_value();
    for (size_t i = 1; is_constant && i < data.size(); ++i)
      is_constant = data.at(i).size() > input && only_value(data.at(i)[input]) == value;
    if (is_constant)
      lines.push_back(
          fmt::format("calibration: input {} is {:g} everywhere in all batches, so its range means "
                      "nothing; give realistic data",
                      input, *value));
  }
  bool are_same = data.size() > 1;
  for (size_t i = 1; are_same && i < data.size(); ++i) {
    const std::vector<c10::IValue> batch = data.at(i);
    are_same = batch.size() == first.size() &&
               std::equal(batch.begin(), batch.end(), first.begin(), is_same);
  }
  if (are_same && lines.empty())
    lines.push_back(fmt::format(
        "calibration: the {} batches are all the same, so one would do; give different ones",
        data.size()));
  return lines;
}

std::vector<std::string> find_quantized_ops(const Graph& graph) {
  size_t count = 0;
  for (const Node* node : graph.nodes())
    count += node->target().starts_with("quantized_decomposed.quantize") ? 1 : 0;
  if (count == 0) return {};
  return {
      fmt::format("the program is quantized already: it has {} quantize op{}; give the float one",
                  count, count == 1 ? "" : "s")};
}

size_t example_input_bytes(const Graph& graph) {
  size_t bytes = 0;
  if (graph.extras != nullptr)
    for (const auto& [name, record] : graph.extras->records)
      bytes += name.starts_with(kSamples) ? record.size() : 0;
  return bytes;
}

void drop_example_inputs(Graph& graph) {
  if (graph.extras == nullptr) return;
  graph.extras = std::make_shared<ArchiveExtras>(*graph.extras);
  std::erase_if(graph.extras->records,
                [](const auto& record) { return record.first.starts_with(kSamples); });
}

}  // namespace octet

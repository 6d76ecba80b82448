// Runs the held-out batches before and after a pass, and compares both outputs with the float
// program's.
#include "annotate/accuracy/held_out_check.h"

#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>
#include <fmt/format.h>

#include "annotate/accuracy/padding_mask.h"
#include "annotate/accuracy/stepwise_run.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr double kLeastGainDb = 0.3;  // smaller gains may be chance, as only a few batches decide

// The mean over rows for outputs with a row per token; other outputs unchanged.
std::vector<c10::IValue> row_means(const std::vector<c10::IValue>& outputs,
                                   const at::Tensor& mask) {
  std::vector<c10::IValue> means;
  for (const c10::IValue& output : outputs) {
    const bool has_rows = mask.defined() && output.isTensor() &&
                          output.toTensor().is_floating_point() &&
                          output.toTensor().dim() == mask.dim() + 1;
    means.push_back(has_rows ? c10::IValue(rows_that_count(output.toTensor(), mask).mean(0))
                             : output);
  }
  return means;
}

// The mean KL divergence over all tokens.
double divergence(const std::vector<c10::IValue>& expected, const std::vector<c10::IValue>& actual,
                  const at::Tensor& mask, int64_t vocabulary) {
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].isTensor() || !expected[i].toTensor().is_floating_point()) continue;
    const at::Tensor logits = rows_that_count(expected[i].toTensor(), mask);
    if (logits.dim() < 2 || logits.size(-1) != vocabulary) continue;
    sum += logit_divergence(logits, rows_that_count(actual.at(i).toTensor(), mask));
  }
  return sum;
}

}  // namespace

int64_t find_vocabulary(const Graph& graph) {
  int64_t rows = 0;
  for (const Node* node : graph.nodes_of("aten.embedding"))
    if (const Value* table = node->inputs().front(); table->meta)
      rows = std::max(rows, table->meta->shape().front());
  for (const GraphOutput& output : graph.outputs()) {
    const Value* value = output.value.value_or_null();
    if (value == nullptr || !value->meta || !is_floating_point(value->meta->dtype)) continue;
    if (const std::vector<int64_t> shape = value->meta->shape();
        shape.size() > 1 && shape.back() == rows)
      return rows;
  }
  return 0;
}

double logit_divergence(const at::Tensor& expected, const at::Tensor& actual) {
  const at::Tensor want = at::log_softmax(expected, -1, at::kFloat);
  const at::Tensor is = at::log_softmax(actual, -1, at::kFloat);
  return (want.exp() * (want - is)).sum(-1).mean(at::kDouble).item<double>();
}

HeldOutData::HeldOutData(const Graph& reference, const BatchSource& data, Peers* peers)
    : vocabulary_(find_vocabulary(reference)), peers_(peers) {
  Interpreter interpreter = float_interpreter(reference);
  const std::optional<size_t> mask_input = find_padding_mask(reference);
  while (std::optional<std::vector<c10::IValue>> batch = data()) {
    outputs_.push_back(interpreter.run(*batch));
    masks_.push_back(padding_mask_of(*batch, mask_input));
    batches_.push_back(std::move(*batch));
  }
  if (batches_.empty() && peers == nullptr)
    throw Error("quantize", "data", "no batches, got 0, want at least 1");
}

double HeldOutData::error(const ObservedGraph& observed) const {
  FakeQuantRun run(observed, batches_);
  std::array<double, 3> sums = {0, 0, static_cast<double>(batches_.size())};
  auto& [rows, means, count] = sums;
  for (size_t i = 0; i < batches_.size(); ++i) {
    const std::vector<c10::IValue> outputs = run.run(i);
    if (vocabulary_ > 0) {
      rows += divergence(outputs_[i], outputs, masks_[i], vocabulary_);
      means = rows;
      continue;
    }
    rows += relative_error(outputs_[i], outputs, masks_[i]);
    means += relative_error(row_means(outputs_[i], masks_[i]), row_means(outputs, masks_[i]));
  }
  if (peers_ != nullptr) peers_->sum(sums);
  return std::sqrt(rows * means) / count;
}

bool HeldOutGain::is_enough() const { return after <= before * std::pow(10.0, -kLeastGainDb / 10); }

std::string HeldOutGain::description() const {
  const auto decibels = [](double ratio) {
    return ratio > 0 ? -10 * std::log10(ratio) : std::numeric_limits<double>::infinity();
  };
  const std::string change =
      is_divergence ? fmt::format("KL divergence {:.4f} -> {:.4f}", before, after)
                    : fmt::format("{:.2f} -> {:.2f} dB", decibels(before), decibels(after));
  return fmt::format("{} on held-out calibration data{}", change, is_enough() ? "" : ", undone");
}

HeldOutCheck::HeldOutCheck(ObservedGraph& observed, HeldOutData data)
    : observed_(observed),
      data_(std::move(data)),
      snapshot_(observed),
      before_(data_.error(observed)) {}

HeldOutGain HeldOutCheck::keep_or_undo() {
  const HeldOutGain gain = data_.gain(before_, data_.error(observed_));
  if (!gain.is_enough()) undo();
  return gain;
}

}  // namespace octet

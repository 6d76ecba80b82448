#include "annotate/held_back_check.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "annotate/float_run.h"
#include "annotate/quantized_run.h"
#include "annotate/row_mask.h"
#include "core/error.h"

namespace octet {

namespace {

constexpr double kLeastGainDb = 0.3;  // less is taken for chance: a few batches decide

// Of outputs that have a row for each token: their mean. Others as they are.
std::vector<c10::IValue> row_means(const std::vector<c10::IValue>& outputs, const at::Tensor& mask) {
  std::vector<c10::IValue> means;
  for (const c10::IValue& output : outputs) {
    const bool has_rows = mask.defined() && output.isTensor() && output.toTensor().is_floating_point() && output.toTensor().dim() == mask.dim() + 1;
    means.push_back(has_rows ? c10::IValue(rows_that_count(output.toTensor(), mask).mean(0)) : output);
  }
  return means;
}

}  // namespace

HeldBackCheck::HeldBackCheck(ObservedGraph& observed, const Graph& reference, const BatchSource& data) : observed_(observed) {
  Interpreter interpreter = float_interpreter(reference);
  const std::optional<size_t> mask_input = find_row_mask(observed.graph);
  while (std::optional<std::vector<c10::IValue>> batch = data()) {
    outputs_.push_back(interpreter.run(*batch));
    masks_.push_back(row_mask_of(*batch, mask_input));
    batches_.push_back(std::move(*batch));
  }
  if (batches_.empty()) throw Error("quantize", "data", "no batches, got 0, want at least 1");
  Report ignored;
  for (const MatrixLayer& layer : find_matrix_layers(observed, "quantize", ignored))
    kept_.push_back({weight_of(layer).clone(), layer.owns_bias ? bias_of(layer).clone() : at::Tensor()});
  before_ = error();
}

double HeldBackCheck::error() const {
  QuantizedRun run(observed_, batches_);
  double rows = 0;
  double means = 0;
  for (size_t i = 0; i < batches_.size(); ++i) {
    const std::vector<c10::IValue> outputs = run.run(i);
    rows += relative_error(outputs_[i], outputs, masks_[i]);
    means += relative_error(row_means(outputs_[i], masks_[i]), row_means(outputs, masks_[i]));
  }
  return std::sqrt(rows * means) / static_cast<double>(batches_.size());
}

void HeldBackCheck::undo() {
  Report ignored;
  std::vector<MatrixLayer> layers = find_matrix_layers(observed_, "quantize", ignored);
  for (size_t i = 0; i < kept_.size(); ++i) {
    set_weight(layers.at(i), kept_[i].weight);
    if (kept_[i].bias.defined()) set_bias(layers.at(i), kept_[i].bias);
  }
}

std::string HeldBackCheck::keep_or_undo() {
  const double after = error();
  const auto decibels = [](double ratio) { return ratio > 0 ? -10 * std::log10(ratio) : std::numeric_limits<double>::infinity(); };
  const bool is_worse = !(after <= before_ * std::pow(10.0, -kLeastGainDb / 10));
  if (is_worse) undo();
  return fmt::format("{:.2f} -> {:.2f} dB on calibration data held back{}", decibels(before_), decibels(after), is_worse ? ", undone" : "");
}

}  // namespace octet

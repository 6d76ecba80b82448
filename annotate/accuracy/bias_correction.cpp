// Corrects the bias of one layer after another. Example: rounding makes a layer's outputs 0.02 too
// large on average, because it rounded more weights up than down and the inputs are positive after
// a ReLU. Subtracting 0.02 from the bias costs nothing at run time.
#include "annotate/accuracy/bias_correction.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include "annotate/accuracy/matrix_layers.h"
#include "annotate/accuracy/padding_mask.h"
#include "annotate/accuracy/stepwise_run.h"
#include "core/base/error.h"

namespace octet {
namespace {

at::Tensor rounded_weight(const ObservedGraph& observed, const MatrixLayer& layer) {
  const Observer& observer = *observed.observers[static_cast<size_t>(layer.weight_group)];
  const at::Tensor weight = weight_of(layer);
  if (!has_weight_grid(observer, weight)) return weight;
  const WeightGrid grid = weight_grid(observer, weight, "%" + layer.weight->name());
  return grid.values(grid.nearest(weight));
}

LayerMeans means_of(const MatrixLayer& layer, const std::vector<LayerSample>& samples,
                    Peers* peers) {
  LayerMeans means;
  for (const LayerSample& sample : samples) {
    const at::Tensor input = input_rows(layer, sample.quantized_input);
    const at::Tensor output = output_rows(layer, sample.float_output);
    const at::Tensor weights = row_weights(layer, output);
    means.rows += weights.slice(0, 0, 1).sum(at::kDouble).item<double>();
    const at::Tensor input_sum = (input * weights).sum(1, /*keepdim=*/false, at::kDouble);
    const at::Tensor output_sum = (output * weights).sum(1, /*keepdim=*/false, at::kDouble);
    means.input_mean = means.input_mean.defined() ? means.input_mean + input_sum : input_sum;
    means.output_mean = means.output_mean.defined() ? means.output_mean + output_sum : output_sum;
  }
  sum_over(peers, {means.input_mean, means.output_mean});
  means.rows = sum_over(peers, means.rows);
  means.input_mean /= means.rows;
  means.output_mean /= means.rows;
  return means;
}

at::Tensor corrected_bias(const ObservedGraph& observed, const MatrixLayer& layer,
                          const std::vector<LayerSample>& samples, Peers* peers) {
  // [groups, out / groups, columns]
  const at::Tensor matrices = to_matrices(layer, rounded_weight(observed, layer)).to(at::kDouble);
  const at::Tensor bias = means_of(layer, samples, peers).best_bias(matrices).reshape({-1});
  if (!at::isfinite(bias).all().item<bool>())
    throw Error("bias correction", "%" + layer.name(),
                "got NaN or infinities for the calibration data, want numbers; clean the data or "
                "check the model");
  const at::Tensor old = bias_of(layer);
  return bias.reshape(old.sizes()).to(old.scalar_type());
}

}  // namespace

int correct_biases(ObservedGraph& observed, const BatchSource& data, Report& report,
                   const WalkOptions& options) {
  constexpr const char* kStage = "bias correction";
  if (const Verdict verdict = can_run_stepwise(observed.graph); !verdict) {
    report.note(fmt::format("{}: left out: {}", kStage, verdict.reason()));
    return 0;
  }
  std::vector<MatrixLayer> layers = find_matrix_layers(observed, kStage, report);
  std::erase_if(layers, [&](const MatrixLayer& layer) {
    return !layer.owns_bias || (options.applies && !options.applies(*layer.op));
  });
  if (layers.empty()) return 0;
  const size_t total = layers.size();
  int changed = 0;
  note_padding_mask(observed.graph, kStage, report);
  LayerWalk walk(observed, std::move(layers), data, kStage, options);
  while (walk.next()) {
    const at::Tensor bias = corrected_bias(observed, walk.layer(), walk.samples(), options.peers);
    if (!at::equal(bias, bias_of(walk.layer()))) {
      walk.change_bias(bias);
      ++changed;
    }
    if (options.progress) options.progress(walk.index() + 1, total, walk.layer().name());
  }
  const bool left_out = sum_over(options.peers, walk.left_data_out() ? 1 : 0) > 0;
  report.note(fmt::format("{}: {} of {} biases changed{}", kStage, changed, total,
                          left_out ? "; not enough memory for all batches" : ""));
  return changed;
}

}  // namespace octet

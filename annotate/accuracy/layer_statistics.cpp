#include "annotate/accuracy/layer_statistics.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/median.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "core/base/error.h"

namespace octet {
namespace {

// An image at a time: an unfolded convolution input is many times the input.
std::vector<LayerSample> single_images(const MatrixLayer& layer, const LayerSample& sample) {
  const bool is_batched = layer.kind == MatrixLayer::Kind::kConvolution &&
                          sample.quantized_input.dim() == weight_of(layer).dim();
  if (!is_batched) return {sample};
  std::vector<LayerSample> images;
  for (int64_t i = 0; i < sample.quantized_input.size(0); ++i)
    images.push_back({sample.quantized_input.narrow(0, i, 1), sample.float_output.narrow(0, i, 1)});
  return images;
}

void accumulate(at::Tensor& sum, const at::Tensor& part) {
  sum = sum.defined() ? sum.add_(part) : part.to(at::kDouble);
}

LayerStatistics zeros_of(const MatrixLayer& layer) {
  const at::Tensor matrices = to_matrices(layer, weight_of(layer));
  const int64_t groups = matrices.size(0), outputs = matrices.size(1), columns = matrices.size(2);
  LayerStatistics zeros;
  zeros.hessian = at::zeros({groups, columns, columns}, at::kDouble);
  zeros.cross = at::zeros({groups, outputs, columns}, at::kDouble);
  zeros.input_mean = at::zeros({groups, columns}, at::kDouble);
  zeros.output_mean = at::zeros({groups, outputs}, at::kDouble);
  return zeros;
}

// Before the means are divided by the rows.
void sum_over(Peers& peers, LayerStatistics& sums) {
  const at::Tensor numbers = at::zeros({2}, at::kDouble);
  double* pair = numbers.data_ptr<double>();
  pair[0] = sums.energy;
  pair[1] = sums.rows;
  octet::sum_over(&peers, {sums.hessian, sums.cross, sums.input_mean, sums.output_mean, numbers});
  sums.energy = pair[0];
  sums.rows = pair[1];
}

}  // namespace

at::Tensor row_weights(const MatrixLayer& layer, const at::Tensor& outputs) {
  if (layer.kind == MatrixLayer::Kind::kConvolution)
    return at::ones({outputs.size(0), outputs.size(1), 1}, outputs.options());
  const at::Tensor energy = outputs.square().sum(2, /*keepdim=*/true);
  const at::Tensor usual = at::median(energy);
  return usual.item<double>() > 0 ? 2 * usual / (energy + usual) : at::ones_like(energy);
}

double LayerStatistics::error(const at::Tensor& matrices) const {
  const double value =
      (matrices * (at::bmm(matrices, hessian) - 2 * cross)).sum().item<double>() + energy;
  return std::max(value, 0.0);
}

at::Tensor LayerMeans::best_bias(const at::Tensor& matrices) const {
  return output_mean - at::bmm(matrices, input_mean.unsqueeze(2)).squeeze(2);
}

double LayerStatistics::error(const at::Tensor& matrices, const at::Tensor& bias) const {
  const double change = (bias * (bias - 2 * best_bias(matrices))).sum().item<double>() * rows;
  return std::max(error(matrices) + change, 0.0);
}

LayerStatistics sum_of(const LayerStatistics& one, const LayerStatistics& other) {
  const double share = one.rows / (one.rows + other.rows);
  LayerStatistics sum;
  sum.hessian = one.hessian + other.hessian;
  sum.cross = one.cross + other.cross;
  sum.energy = one.energy + other.energy;
  sum.input_mean = one.input_mean * share + other.input_mean * (1 - share);
  sum.output_mean = one.output_mean * share + other.output_mean * (1 - share);
  sum.rows = one.rows + other.rows;
  return sum;
}

LayerStatistics LayerStatistics::centered() const {
  LayerStatistics result = *this;
  result.hessian = hessian - rows * at::bmm(input_mean.unsqueeze(2), input_mean.unsqueeze(1));
  result.cross = cross - rows * at::bmm(output_mean.unsqueeze(2), input_mean.unsqueeze(1));
  result.energy = std::max(0.0, energy - rows * (output_mean * output_mean).sum().item<double>());
  return result;
}

LayerStatistics collect_statistics(const MatrixLayer& layer,
                                   const std::vector<LayerSample>& samples, const at::Tensor& bias,
                                   const std::string& stage, Peers* peers) {
  LayerStatistics result = peers == nullptr ? LayerStatistics() : zeros_of(layer);
  const at::NoGradGuard no_grad;
  for (const LayerSample& sample : samples)
    for (const LayerSample& image : single_images(layer, sample)) {
      const at::Tensor x = input_rows(layer, image.quantized_input);
      at::Tensor y = output_rows(layer, image.float_output);
      if (bias.defined()) y = y - bias.reshape({y.size(0), 1, y.size(2)});
      const at::Tensor weights = row_weights(layer, y);
      const at::Tensor weighted = x * weights;
      accumulate(result.hessian, at::bmm(weighted.transpose(1, 2), x));
      accumulate(result.cross, at::bmm(y.transpose(1, 2), weighted));
      accumulate(result.input_mean, weighted.sum(1, false, at::kDouble));
      accumulate(result.output_mean, (y * weights).sum(1, false, at::kDouble));
      result.energy += (y * y * weights).sum(at::kDouble).item<double>();
      result.rows += weights.slice(0, 0, 1).sum(at::kDouble).item<double>();
    }
  if (peers != nullptr) sum_over(*peers, result);
  if (result.rows == 0)
    throw Error(stage, "%" + layer.name(),
                "the data has no row for this layer, want at least 1; give other data");
  if (!at::isfinite(result.hessian).all().item<bool>() ||
      !at::isfinite(result.cross).all().item<bool>())
    throw Error(stage, "%" + layer.name(),
                "its inputs or outputs hold NaN or infinities, want finite numbers; check the "
                "model and the data");
  result.input_mean /= result.rows;
  result.output_mean /= result.rows;
  return result;
}

}  // namespace octet

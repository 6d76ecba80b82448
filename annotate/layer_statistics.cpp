#include "annotate/layer_statistics.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/isfinite.h>

#include "core/error.h"

namespace octet {
namespace {

// An image at a time: an unfolded convolution input is many times the input.
std::vector<LayerSample> single_images(const MatrixLayer& layer, const LayerSample& sample) {
  const bool is_batched = layer.kind == MatrixLayer::Kind::kConvolution && sample.quantized_input.dim() == weight_of(layer).dim();
  if (!is_batched) return {sample};
  std::vector<LayerSample> images;
  for (int64_t i = 0; i < sample.quantized_input.size(0); ++i)
    images.push_back({sample.quantized_input.narrow(0, i, 1), sample.float_output.narrow(0, i, 1)});
  return images;
}

void accumulate(at::Tensor& sum, const at::Tensor& part) { sum = sum.defined() ? sum.add_(part) : part.to(at::kDouble); }

}  // namespace

double LayerStatistics::error(const at::Tensor& matrices) const {
  const double value = (matrices * (at::bmm(matrices, hessian) - 2 * cross)).sum().item<double>() + energy;
  return std::max(value, 0.0);
}

at::Tensor LayerStatistics::best_bias(const at::Tensor& matrices) const {
  return output_mean - at::bmm(matrices, input_mean.unsqueeze(2)).squeeze(2);
}

double LayerStatistics::error(const at::Tensor& matrices, const at::Tensor& bias) const {
  const double change = (bias * (bias - 2 * best_bias(matrices))).sum().item<double>() * static_cast<double>(rows);
  return std::max(error(matrices) + change, 0.0);
}

LayerStatistics sum_of(const LayerStatistics& one, const LayerStatistics& other) {
  const auto rows = static_cast<double>(one.rows + other.rows);
  const double share = static_cast<double>(one.rows) / rows;
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
  const double n = static_cast<double>(rows);
  LayerStatistics result = *this;
  result.hessian = hessian - n * at::bmm(input_mean.unsqueeze(2), input_mean.unsqueeze(1));
  result.cross = cross - n * at::bmm(output_mean.unsqueeze(2), input_mean.unsqueeze(1));
  result.energy = std::max(0.0, energy - n * (output_mean * output_mean).sum().item<double>());
  return result;
}

LayerStatistics collect_statistics(const MatrixLayer& layer, const std::vector<LayerSample>& samples, const at::Tensor& bias,
                                   const std::string& stage) {
  LayerStatistics result;
  const at::NoGradGuard no_grad;
  for (const LayerSample& sample : samples)
    for (const LayerSample& image : single_images(layer, sample)) {
      const at::Tensor x = input_rows(layer, image.quantized_input);
      at::Tensor y = output_rows(layer, image.float_output);
      if (bias.defined()) y = y - bias.reshape({y.size(0), 1, y.size(2)});
      accumulate(result.hessian, at::bmm(x.transpose(1, 2), x));
      accumulate(result.cross, at::bmm(y.transpose(1, 2), x));
      accumulate(result.input_mean, x.sum(1, false, at::kDouble));
      accumulate(result.output_mean, y.sum(1, false, at::kDouble));
      result.energy += (y * y).sum(at::kDouble).item<double>();
      result.rows += x.size(1);
    }
  if (result.rows == 0) throw Error(stage, "%" + layer.name(), "the data has no row for this layer, want at least 1; give other data");
  if (!at::isfinite(result.hessian).all().item<bool>() || !at::isfinite(result.cross).all().item<bool>())
    throw Error(stage, "%" + layer.name(), "its inputs or outputs hold NaN or infinities, want finite numbers; check the model and the data");
  result.input_mean /= static_cast<double>(result.rows);
  result.output_mean /= static_cast<double>(result.rows);
  return result;
}

}  // namespace octet

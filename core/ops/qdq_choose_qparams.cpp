// choose_qparams of quantized_decomposed: scale and zero point from the range of a tensor, whole or
// row by row.
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/round.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "core/ops/qdq_kernels.h"

namespace octet::qdq {
namespace {

using c10::Scalar;

// The range widened to hold 0; nothing when the tensor has no range, as torch's observers start
// with.
struct SeenRange {
  at::Tensor min;
  at::Tensor max;
};

std::optional<SeenRange> find_range(const at::Tensor& input, int64_t quant_min, int64_t quant_max,
                                    ScalarType dtype) {
  const ScalarType type = input.scalar_type();
  TORCH_CHECK(type == ScalarType::Float || type == ScalarType::Half || type == ScalarType::BFloat16,
              "expecting input to have dtype Float, Half or BFloat16, but got dtype: ", type);
  TORCH_CHECK(is_quantized_type(dtype), "unsupported dtype: ", dtype);
  TORCH_CHECK(quant_min <= 0 && 0 <= quant_max, "the quantization range must include 0, got [",
              quant_min, ", ", quant_max, "]");
  TORCH_CHECK(quant_min < quant_max, "quant_min must be less than quant_max, got [", quant_min,
              ", ", quant_max, "]");
  const auto [min, max] = at::aminmax(input);
  const double low = min.item().toDouble();
  const double high = max.item().toDouble();
  if (low == std::numeric_limits<double>::infinity() &&
      high == -std::numeric_limits<double>::infinity())
    return std::nullopt;
  TORCH_CHECK(!(low > high), "min ", low, " should be less than max ", high);
  return SeenRange{at::minimum(min, at::zeros_like(min)), at::maximum(max, at::zeros_like(max))};
}

QParamTensors no_range() {
  return {at::full({1}, 1.0, ScalarType::Float), at::full({1}, 0, ScalarType::Long)};
}

at::Tensor at_least(const at::Tensor& scale, double eps) {
  return at::maximum(scale, at::full({1}, Scalar(eps), ScalarType::Float));
}

}  // namespace

QParamTensors choose_qparams(const at::Tensor& input, int64_t quant_min, int64_t quant_max,
                             double eps, ScalarType dtype) {
  const std::optional<SeenRange> range = find_range(input, quant_min, quant_max, dtype);
  if (!range) return no_range();
  const at::Tensor scale =
      at_least((range->max - range->min) / static_cast<double>(quant_max - quant_min), eps);
  const at::Tensor steps = at::round(range->min / scale).to(ScalarType::Int);
  const at::Tensor zero_point =
      at::clamp(at::rsub(steps, Scalar(quant_min)), Scalar(quant_min), Scalar(quant_max));
  return {scale.to(ScalarType::Double), zero_point.to(ScalarType::Long)};
}

QParamTensors choose_qparams_symmetric(const at::Tensor& input, int64_t quant_min,
                                       int64_t quant_max, double eps, ScalarType dtype) {
  const std::optional<SeenRange> range = find_range(input, quant_min, quant_max, dtype);
  if (!range) return no_range();
  const at::Tensor reach = at::maximum(-range->min, range->max);
  const at::Tensor scale = at_least(reach / (static_cast<double>(quant_max - quant_min) / 2), eps);
  return {scale.to(ScalarType::Double),
          at::full({1}, dtype == ScalarType::Byte ? 128 : 0, ScalarType::Long)};
}

QParamTensors choose_qparams_per_token(const at::Tensor& input, ScalarType dtype) {
  TORCH_CHECK(dtype == ScalarType::Char, "unsupported dtype in choose_qparams_per_token: ", dtype);
  at::Tensor scales = at::amax(at::abs(input), {-1}, /*keepdim=*/true);
  // f16 would overflow
  if (scales.scalar_type() == ScalarType::Half) scales = scales.to(ScalarType::Float);
  scales = at::clamp(scales, Scalar(1e-5)).div(127);
  return {scales, at::zeros_like(scales)};
}

QParamTensors choose_qparams_per_token_asymmetric(const at::Tensor& input, ScalarType) {
  constexpr int64_t kMin = -128;
  constexpr int64_t kMax = 127;
  const at::Tensor lowest = at::amin(input, {-1}, true);
  const at::Tensor highest = at::amax(input, {-1}, true);
  const at::Tensor low = at::minimum(lowest, at::zeros_like(lowest));
  const at::Tensor high = at::maximum(highest, at::zeros_like(highest));
  const at::Tensor scale =
      at::clamp((high - low) / static_cast<double>(kMax - kMin),
                Scalar(static_cast<double>(std::numeric_limits<float>::epsilon())));
  const at::Tensor steps_low = low / scale;
  const at::Tensor steps_high = high / scale;
  // The end of the range that the zero point would represent worse decides.
  const at::Tensor error = (steps_low + kMin) + (steps_high + kMax);
  const at::Tensor zero_point =
      at::where(error > 0, at::rsub(steps_low, Scalar(kMin)), at::rsub(steps_high, Scalar(kMax)));
  return {scale.to(ScalarType::Double),
          at::clamp(zero_point, Scalar(kMin), Scalar(kMax)).round().to(ScalarType::Long)};
}

}  // namespace octet::qdq

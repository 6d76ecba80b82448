// Uses plain loops, because each constant is converted once.
#include "lowering/program/quantized_constants.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/number_types.h"
#include "lowering/program/blocks.h"

namespace octet {
namespace {

// The slice along `axis` that an element belongs to.
size_t channel_of(const Tensor& tensor, int axis, int64_t element) {
  if (axis < 0) return 0;
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(axis) + 1; d < tensor.shape().size(); ++d)
    inner *= tensor.shape()[d];
  return static_cast<size_t>(element / inner % tensor.shape()[static_cast<size_t>(axis)]);
}

}  // namespace

bool has_constant_values(DType dtype) {
  return is_integer(dtype) || dtype == DType::kBool || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

std::vector<double> constant_values(const Tensor& given) {
  const Tensor tensor = given.contiguous();
  std::vector<double> values;
  const bool is_known = try_number_type(tensor.dtype(), [&](auto* type) {
    const auto* data = tensor.data<std::remove_pointer_t<decltype(type)>>();
    values.assign(data, data + tensor.numel());
  });
  if (!is_known)
    throw Error("lower", "constant",
                "has dtype " + std::string(name_of(tensor.dtype())) +
                    ", want integers, float32 or float64; cast it");
  return values;
}

Tensor dequantize_constant(const Tensor& tensor, const std::vector<double>& scales,
                           const std::vector<double>& zero_points, int axis) {
  const std::vector<double> values = constant_values(tensor);
  Tensor real = Tensor::zeros(DType::kFloat32, tensor.shape());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t channel = channel_of(tensor, axis, static_cast<int64_t>(i));
    real.data<float>()[i] =
        static_cast<float>(values[i] - zero_points[channel]) * static_cast<float>(scales[channel]);
  }
  return real;
}

Tensor dequantize_constant(const Tensor& tensor, const TensorQParams& qparams) {
  return dequantize_constant(tensor, {qparams.scale.begin(), qparams.scale.end()},
                             {qparams.zero_point.begin(), qparams.zero_point.end()}, qparams.axis);
}

Tensor quantize_constant(const Tensor& real, const TensorQParams& qparams, DType dtype, int64_t low,
                         int64_t high) {
  const std::vector<double> values = constant_values(real);
  Tensor result = Tensor::zeros(dtype, real.shape());
  const size_t bytes = size_of(dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t channel = channel_of(real, qparams.axis, static_cast<int64_t>(i));
    const float inverse = static_cast<float>(1.0 / static_cast<double>(qparams.scale[channel]));
    const double q = static_cast<double>(std::nearbyint(static_cast<float>(values[i]) * inverse)) +
                     qparams.zero_point[channel];
    const int64_t clamped = std::isnan(q)
                                ? low
                                : static_cast<int64_t>(std::clamp(q, static_cast<double>(low),
                                                                  static_cast<double>(high)));
    std::memcpy(result.raw() + i * bytes, &clamped, bytes);  // little endian
  }
  return result;
}

Tensor quantize_blocks(const Tensor& given, const Tensor& scale, const Tensor& zero_point,
                       DType dtype, const RoundedRange& range) {
  const Tensor real = given.contiguous();
  Tensor result = Tensor::zeros(dtype, real.shape());
  const size_t bytes = size_of(dtype);
  const float low = static_cast<float>(range.low), high = static_cast<float>(range.high);
  for_each_block_run(real.shape(), scale.shape(), [&](int64_t first, int64_t count, int64_t block) {
    const float inverse = 1.0f / scale.data<float>()[block];
    const float zero = zero_point.defined() ? zero_point.data<float>()[block] : 0.0f;
    for (int64_t i = first; i < first + count; ++i) {
      const float steps = real.data<float>()[i] * inverse;
      const float q =
          range.adds_zero_first ? std::nearbyint(steps + zero) : std::nearbyint(steps) + zero;
      const int32_t value =
          std::isnan(q) ? 0 : static_cast<int32_t>(std::min(std::max(q, low), high));
      std::memcpy(result.raw() + static_cast<size_t>(i) * bytes, &value, bytes);  // little endian
    }
  });
  return result;
}

Tensor permute_constant(const Tensor& tensor, const std::vector<int64_t>& dims) {
  std::vector<int64_t> shape, strides;
  for (int64_t dim : dims) {
    shape.push_back(tensor.shape()[static_cast<size_t>(dim)]);
    strides.push_back(tensor.strides()[static_cast<size_t>(dim)]);
  }
  return Tensor(tensor.storage(), tensor.dtype(), shape, strides, tensor.offset()).contiguous();
}

}  // namespace octet

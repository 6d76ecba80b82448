// Conversions between stored elements and reals, and small helpers of all kernels.
#include "backends/reference/kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "lowering/half.h"

namespace octet::reference {
namespace {

// Calls visit with a typed null pointer of the element type of an integer or bool dtype.
template <typename Visit>
void visit_integer_type(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::kUInt8:
      return visit(static_cast<uint8_t*>(nullptr));
    case DType::kInt8:
      return visit(static_cast<int8_t*>(nullptr));
    case DType::kUInt16:
      return visit(static_cast<uint16_t*>(nullptr));
    case DType::kInt16:
      return visit(static_cast<int16_t*>(nullptr));
    case DType::kUInt32:
      return visit(static_cast<uint32_t*>(nullptr));
    case DType::kInt32:
      return visit(static_cast<int32_t*>(nullptr));
    case DType::kUInt64:
      return visit(static_cast<uint64_t*>(nullptr));
    case DType::kInt64:
      return visit(static_cast<int64_t*>(nullptr));
    case DType::kBool:
      return visit(static_cast<bool*>(nullptr));
    default:
      OCTET_ASSERT(false, "dtype " + std::string(name_of(dtype)) + " is not for the reference kernels");
  }
}

// Dequantizes like torch: in float for T = float.
template <typename T, typename E>
void dequantize(const E* data, const TensorQParams& qparams, const std::vector<int64_t>& shape, std::vector<T>& out) {
  const DimSplit split =
      qparams.is_per_tensor() ? DimSplit{1, 1, static_cast<int64_t>(out.size())} : split_at(shape, static_cast<size_t>(qparams.axis));
  int64_t i = 0;
  for (int64_t outer = 0; outer < split.outer; ++outer)
    for (int64_t channel = 0; channel < split.size; ++channel) {
      const T scale = qparams.scale[static_cast<size_t>(channel)];
      const int64_t zero = qparams.zero_point[static_cast<size_t>(channel)];
      for (int64_t inner = 0; inner < split.inner; ++inner, ++i)
        out[static_cast<size_t>(i)] = static_cast<T>(static_cast<int64_t>(data[i]) - zero) * scale;
    }
}

template <typename T>
void read_other(const Tensor& tensor, const ProgramTensor& info, std::vector<T>& out) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      std::copy_n(tensor.data<float>(), out.size(), out.begin());
      return;
    case DType::kFloat64:
      std::transform(tensor.data<double>(), tensor.data<double>() + out.size(), out.begin(), [](double v) { return static_cast<T>(v); });
      return;
    case DType::kFloat16:
      std::transform(tensor.data<uint16_t>(), tensor.data<uint16_t>() + out.size(), out.begin(), half_to_float);
      return;
    case DType::kBFloat16:
      std::transform(tensor.data<uint16_t>(), tensor.data<uint16_t>() + out.size(), out.begin(), bfloat_to_float);
      return;
    case DType::kBool:  // any byte but 0 is true
      std::transform(tensor.data<uint8_t>(), tensor.data<uint8_t>() + out.size(), out.begin(), [](uint8_t v) { return static_cast<T>(v != 0); });
      return;
    default:
      break;
  }
  visit_integer_type(tensor.dtype(), [&](auto* type) {
    using E = std::remove_pointer_t<decltype(type)>;
    const E* data = tensor.data<E>();
    if (info.qparams) {
      dequantize(data, *info.qparams, info.shape, out);
    } else {
      for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(data[i]);
    }
  });
}

}  // namespace

template <typename T>
Reals<T>::Reals(const Tensor& tensor, const ProgramTensor& info) {
  const size_t count = static_cast<size_t>(tensor.numel());
  if ((std::is_same_v<T, float> && tensor.dtype() == DType::kFloat32) || (std::is_same_v<T, double> && tensor.dtype() == DType::kFloat64)) {
    view_ = {tensor.data<T>(), count};
    return;
  }
  owned_.resize(count);
  read_other(tensor, info, owned_);
  view_ = owned_;
}
template class Reals<float>;
template class Reals<double>;

int64_t round_to(double value, const IntegerRange& range) {
  if (std::isnan(value)) return std::clamp<int64_t>(0, range.min, range.max);
  const double rounded = std::nearbyint(value);
  if (rounded <= static_cast<double>(range.min)) return range.min;
  if (rounded >= static_cast<double>(range.max)) return range.max;
  return static_cast<int64_t>(rounded);
}

namespace {

// Multiplies by the reciprocal in T, as torch's quantize ops do in float.
template <typename T, typename E>
void quantize(std::span<const T> values, const ProgramTensor& info, E* out) {
  const TensorQParams& qparams = *info.qparams;
  const IntegerRange range = integer_range(info.dtype);
  const DimSplit split =
      qparams.is_per_tensor() ? DimSplit{1, 1, static_cast<int64_t>(values.size())} : split_at(info.shape, static_cast<size_t>(qparams.axis));
  size_t i = 0;
  for (int64_t outer = 0; outer < split.outer; ++outer)
    for (int64_t channel = 0; channel < split.size; ++channel) {
      const T inverse = static_cast<T>(1.0 / static_cast<double>(qparams.scale[static_cast<size_t>(channel)]));
      const T zero = static_cast<T>(qparams.zero_point[static_cast<size_t>(channel)]);
      const T low = static_cast<T>(range.min);
      const T high = static_cast<T>(range.max);
      for (int64_t inner = 0; inner < split.inner; ++inner, ++i) {
        const T q = std::nearbyint(values[i] * inverse) + zero;
        if constexpr (sizeof(E) < 4) {
          out[i] = static_cast<E>(std::isnan(q) ? zero : std::min(std::max(q, low), high));
        } else {
          out[i] = static_cast<E>(round_to(q, range));
        }
      }
    }
}

template <typename T>
void store_integers(std::span<const T> values, const ProgramTensor& info, const Tensor& out) {
  visit_integer_type(info.dtype, [&](auto* type) {
    using E = std::remove_pointer_t<decltype(type)>;
    E* data = out.data<E>();
    if constexpr (std::is_same_v<E, bool>) {
      for (size_t i = 0; i < values.size(); ++i) data[i] = values[i] != 0;
    } else {
      if (info.qparams) return quantize(values, info, data);
      const IntegerRange range = sizeof(E) < 8 ? integer_range(info.dtype) : IntegerRange{INT64_MIN, INT64_MAX};
      for (size_t i = 0; i < values.size(); ++i)
        data[i] = static_cast<E>(round_to(std::trunc(static_cast<double>(values[i])), range));  // as casts do
    }
  });
}

}  // namespace

template <typename T>
void store(const KernelCall& call, std::span<const T> values, size_t output) {
  const ProgramTensor& info = call.output(output);
  const Tensor& out = call.outputs[output];
  OCTET_ASSERT(static_cast<int64_t>(values.size()) == out.numel(), call.op.name + ": element count");
  std::vector<T> clamped;
  const std::optional<double> low = call.op.find_real("post_min");
  const std::optional<double> high = call.op.find_real("post_max");
  if (low || high) {
    const T least = static_cast<T>(low.value_or(-INFINITY));
    const T most = static_cast<T>(high.value_or(INFINITY));
    clamped.assign(values.begin(), values.end());
    for (T& value : clamped) value = value < least ? least : value > most ? most : value;  // keeps NaN
    values = clamped;
  }
  switch (info.dtype) {
    case DType::kFloat32:
      std::transform(values.begin(), values.end(), out.data<float>(), [](T v) { return static_cast<float>(v); });
      return;
    case DType::kFloat64:
      std::copy(values.begin(), values.end(), out.data<double>());
      return;
    case DType::kFloat16:
      std::transform(values.begin(), values.end(), out.data<uint16_t>(), [](T v) { return float_to_half(static_cast<float>(v)); });
      return;
    case DType::kBFloat16:
      std::transform(values.begin(), values.end(), out.data<uint16_t>(), [](T v) { return float_to_bfloat(static_cast<float>(v)); });
      return;
    default:
      store_integers(values, info, out);
  }
}
template void store<float>(const KernelCall&, std::span<const float>, size_t);
template void store<double>(const KernelCall&, std::span<const double>, size_t);

bool is_small_quantized(const ProgramTensor& tensor) { return tensor.qparams.has_value() && size_of(tensor.dtype) <= 2; }

std::vector<int32_t> centered(const Tensor& tensor, const ProgramTensor& info) {
  const TensorQParams& qparams = *info.qparams;
  std::vector<int32_t> values(static_cast<size_t>(tensor.numel()));
  const DimSplit split = qparams.is_per_tensor() ? DimSplit{1, 1, tensor.numel()} : split_at(info.shape, static_cast<size_t>(qparams.axis));
  visit_integer_type(tensor.dtype(), [&](auto* type) {
    using E = std::remove_pointer_t<decltype(type)>;
    const E* data = tensor.data<E>();
    size_t i = 0;
    for (int64_t outer = 0; outer < split.outer; ++outer)
      for (int64_t channel = 0; channel < split.size; ++channel) {
        const int32_t zero = qparams.zero_point[static_cast<size_t>(channel)];
        for (int64_t inner = 0; inner < split.inner; ++inner, ++i) values[i] = static_cast<int32_t>(data[i]) - zero;
      }
  });
  return values;
}

std::vector<double> bias_or_zeros(const KernelCall& call, size_t input, int64_t channels) {
  std::vector<double> bias(static_cast<size_t>(channels), 0.0);
  if (!call.has_input(input)) return bias;
  const Reals<double> values = doubles(call, input);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = values[static_cast<int64_t>(i)];
  return bias;
}

std::vector<int64_t> broadcast_strides(const std::vector<int64_t>& shape, const std::vector<int64_t>& target) {
  const std::vector<int64_t> own = contiguous_strides(shape);
  std::vector<int64_t> strides(target.size(), 0);
  const size_t lead = target.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d) strides[lead + d] = shape[d] == 1 ? 0 : own[d];
  return strides;
}

bool is_broadcastable(const std::vector<int64_t>& shape, const std::vector<int64_t>& target) {
  if (shape.size() > target.size()) return false;
  const size_t lead = target.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && shape[d] != target[lead + d]) return false;
  return true;
}

DimSplit split_at(const std::vector<int64_t>& shape, size_t dim) {
  DimSplit split;
  for (size_t d = 0; d < shape.size(); ++d) (d < dim ? split.outer : d == dim ? split.size : split.inner) *= shape[d];
  return split;
}

const ProgramTensor* find_input(const Program& program, const ProgramOp& op, size_t i) {
  return i < op.inputs.size() && op.inputs[i] >= 0 ? &program.tensors[static_cast<size_t>(op.inputs[i])] : nullptr;
}

Verdict check_counts(const ProgramOp& op, size_t required, size_t most) {
  if (op.outputs.size() != 1) return Verdict::refuse(fmt::format("{} has {} outputs, want 1", op.kind, op.outputs.size()));
  if (op.inputs.size() > most) return Verdict::refuse(fmt::format("{} has {} inputs, want at most {}", op.kind, op.inputs.size(), most));
  for (size_t i = 0; i < required; ++i)
    if (i >= op.inputs.size() || op.inputs[i] < 0) return Verdict::refuse(fmt::format("{} lacks input {}", op.kind, i));
  return Verdict::accept();
}

std::optional<size_t> find_dim(int64_t dim, size_t rank) {
  const int64_t positive = dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
  if (positive < 0 || positive >= static_cast<int64_t>(rank)) return std::nullopt;
  return static_cast<size_t>(positive);
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace octet::reference

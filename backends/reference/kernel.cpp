// Converts between stored elements and reals; helpers of all kernels.
#include "backends/reference/kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/half.h"
#include "lowering/program/stored_constant.h"

namespace octet::reference {
namespace {

// Which scales the elements have: those of `split`, from slice `first` on.
struct Slices {
  DimSplit split;
  int64_t first = 0;
};

Slices slices_of(const ProgramTensor& info, int64_t count) {
  const bool is_sliced = info.qparams && !info.qparams->is_per_tensor();
  return {is_sliced ? split_at(info.shape, static_cast<size_t>(info.qparams->axis))
                    : DimSplit{1, 1, count}};
}

// Dequantizes as torch does: in float for T = float.
template <typename T, typename E>
void dequantize(const E* data, const TensorQParams& qparams, const Slices& slices,
                std::span<T> out) {
  const DimSplit& split = slices.split;
  int64_t i = 0;
  for (int64_t outer = 0; outer < split.outer; ++outer)
    for (int64_t channel = 0; channel < split.size; ++channel) {
      const T scale = qparams.scale[static_cast<size_t>(slices.first + channel)];
      const int64_t zero = qparams.zero_point[static_cast<size_t>(slices.first + channel)];
      for (int64_t inner = 0; inner < split.inner; ++inner, ++i)
        out[static_cast<size_t>(i)] = static_cast<T>(static_cast<int64_t>(data[i]) - zero) * scale;
    }
}

template <typename T, typename E, typename Convert>
void convert_to(const std::byte* data, std::span<T> out, const Convert& convert) {
  const E* elements = reinterpret_cast<const E*>(data);
  std::transform(elements, elements + out.size(), out.begin(), convert);
}

template <typename T>
void read_other(const std::byte* data, const ProgramTensor& info, const Slices& slices,
                std::span<T> out) {
  switch (info.dtype) {
    case DType::kFloat32:
      return convert_to<T, float>(data, out, [](float v) { return static_cast<T>(v); });
    case DType::kFloat64:
      return convert_to<T, double>(data, out, [](double v) { return static_cast<T>(v); });
    case DType::kFloat16: return convert_to<T, uint16_t>(data, out, half_to_float);
    case DType::kBFloat16: return convert_to<T, uint16_t>(data, out, bfloat_to_float);
    case DType::kBool:  // any nonzero byte is true
      return convert_to<T, uint8_t>(data, out, [](uint8_t v) { return static_cast<T>(v != 0); });
    default: break;
  }
  visit_integer_type(info.dtype, [&](auto* type) {
    using E = std::remove_pointer_t<decltype(type)>;
    const E* elements = reinterpret_cast<const E*>(data);
    if (info.qparams) {
      dequantize(elements, *info.qparams, slices, out);
    } else {
      for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(elements[i]);
    }
  });
}

}  // namespace

// ---- attributes

Sizes KernelCall::sizes(const attr::Integers& key, const Sizes& fallback) const {
  if (!op.has(key)) return fallback;
  const std::vector<int64_t>& value = op.get(key);
  return {value.begin(), value.end()};
}

void SpatialWindows::set(const KernelCall& call, std::span<const int64_t> sizes,
                         const Sizes& default_stride) {
  const size_t spatial = sizes.size(), lead = call.input_shape(0).size() - spatial;
  const Sizes ones(spatial, 1), zeros(spatial, 0);
  const Sizes strides = call.sizes(attr::kStride, default_stride),
              paddings = call.sizes(attr::kPadding, zeros),
              dilations = call.sizes(attr::kDilation, ones);
  for (size_t d = 0; d < spatial; ++d) {
    const size_t at = kMaxSpatial - spatial + d;
    in[at] = call.input_shape(0)[lead + d];
    out[at] = call.output_shape()[lead + d];
    kernel[at] = sizes[d];
    stride[at] = strides[d];
    padding[at] = paddings[d];
    dilation[at] = dilations[d];
  }
}

// ---- elements

template <typename T>
Reals<T>::Reals(const Tensor& tensor, const ProgramTensor& info) {
  const size_t count = static_cast<size_t>(tensor.numel());
  if ((std::is_same_v<T, float> && tensor.dtype() == DType::kFloat32) ||
      (std::is_same_v<T, double> && tensor.dtype() == DType::kFloat64)) {
    view_ = {tensor.data<T>(), count};
    return;
  }
  owned_.resize(count);
  read_other<T>(tensor.raw(), info, slices_of(info, tensor.numel()), owned_);
  view_ = owned_;
}
template class Reals<float>;
template class Reals<double>;

void read_row(const Tensor& table, const ProgramTensor& info, int64_t row,
              std::span<float> values) {
  if (info.stored) return expand_row(*info.stored, row, values);
  const int64_t width = static_cast<int64_t>(values.size());
  Slices slices{{1, 1, width}};
  if (info.qparams && info.qparams->axis == 0) slices.first = row;
  if (info.qparams && info.qparams->axis == 1) slices.split = {1, width, 1};
  read_other(table.raw() + static_cast<size_t>(row) * values.size() * size_of(info.dtype), info,
             slices, values);
}

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
  const DimSplit split = qparams.is_per_tensor()
                             ? DimSplit{1, 1, static_cast<int64_t>(values.size())}
                             : split_at(info.shape, static_cast<size_t>(qparams.axis));
  size_t i = 0;
  for (int64_t outer = 0; outer < split.outer; ++outer)
    for (int64_t channel = 0; channel < split.size; ++channel) {
      const T inverse =
          static_cast<T>(1.0 / static_cast<double>(qparams.scale[static_cast<size_t>(channel)]));
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
      const IntegerRange range =
          sizeof(E) < 8 ? integer_range(info.dtype) : IntegerRange{INT64_MIN, INT64_MAX};
      for (size_t i = 0; i < values.size(); ++i)
        // as in casts
        data[i] = static_cast<E>(round_to(std::trunc(static_cast<double>(values[i])), range));
    }
  });
}

}  // namespace

template <typename T>
void store(const KernelCall& call, std::span<const T> values, size_t output) {
  const ProgramTensor& info = call.output(output);
  const Tensor& out = call.outputs[output];
  OCTET_ASSERT(static_cast<int64_t>(values.size()) == out.numel(),
               call.op.name + ": element count");
  Buffer<T> clamped;
  const std::optional<double> low = call.op.find(attr::kPostMin);
  const std::optional<double> high = call.op.find(attr::kPostMax);
  if (low || high) {
    const T least = static_cast<T>(low.value_or(-INFINITY));
    const T most = static_cast<T>(high.value_or(INFINITY));
    clamped.assign(values.begin(), values.end());
    // keeps NaN
    for (T& value : clamped) value = value < least ? least : value > most ? most : value;
    values = clamped;
  }
  switch (info.dtype) {
    case DType::kFloat32:
      std::transform(values.begin(), values.end(), out.data<float>(),
                     [](T v) { return static_cast<float>(v); });
      return;
    case DType::kFloat64: std::copy(values.begin(), values.end(), out.data<double>()); return;
    case DType::kFloat16:
      std::transform(values.begin(), values.end(), out.data<uint16_t>(),
                     [](T v) { return float_to_half(static_cast<float>(v)); });
      return;
    case DType::kBFloat16:
      std::transform(values.begin(), values.end(), out.data<uint16_t>(),
                     [](T v) { return float_to_bfloat(static_cast<float>(v)); });
      return;
    default: store_integers(values, info, out);
  }
}
template void store<float>(const KernelCall&, std::span<const float>, size_t);
template void store<double>(const KernelCall&, std::span<const double>, size_t);

bool is_small_quantized(const ProgramTensor& tensor) {
  return tensor.qparams.has_value() && size_of(tensor.dtype) <= 2;
}

Buffer<int32_t> centered(const Tensor& tensor, const ProgramTensor& info) {
  const TensorQParams& qparams = *info.qparams;
  Buffer<int32_t> values(static_cast<size_t>(tensor.numel()));
  const DimSplit split = qparams.is_per_tensor()
                             ? DimSplit{1, 1, tensor.numel()}
                             : split_at(info.shape, static_cast<size_t>(qparams.axis));
  visit_integer_type(tensor.dtype(), [&](auto* type) {
    using E = std::remove_pointer_t<decltype(type)>;
    const E* data = tensor.data<E>();
    size_t i = 0;
    for (int64_t outer = 0; outer < split.outer; ++outer)
      for (int64_t channel = 0; channel < split.size; ++channel) {
        const int32_t zero = qparams.zero_point[static_cast<size_t>(channel)];
        for (int64_t inner = 0; inner < split.inner; ++inner, ++i)
          values[i] = static_cast<int32_t>(data[i]) - zero;
      }
  });
  return values;
}

Buffer<double> bias_or_zeros(const KernelCall& call, size_t input, int64_t channels) {
  Buffer<double> bias(static_cast<size_t>(channels), 0.0);
  if (!call.has_input(input)) return bias;
  const Reals<double> values = doubles(call, input);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = values[static_cast<int64_t>(i)];
  return bias;
}

Sizes strides_of(std::span<const int64_t> shape) {
  Sizes strides(shape.size(), 1);
  write_contiguous_strides(shape, strides);
  return strides;
}

Sizes broadcast_strides(std::span<const int64_t> shape, std::span<const int64_t> target) {
  const Sizes own = strides_of(shape);
  Sizes strides(target.size(), 0);
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
  for (size_t d = 0; d < shape.size(); ++d)
    (d < dim ? split.outer : d == dim ? split.size : split.inner) *= shape[d];
  return split;
}

const ProgramTensor* find_input(const Program& program, const ProgramOp& op, size_t i) {
  return i < op.inputs.size() && op.inputs[i] >= 0 ? &program.tensor(op.inputs[i]) : nullptr;
}

Verdict check_windows(const ProgramOp& op, size_t spatial) {
  for (const AttributeSpec& spec : find_contract(op.kind)->attributes) {
    if (spec.type != AttributeType::kIntegers || !op.has(spec)) continue;
    const std::vector<int64_t>& values =
        std::get<std::vector<int64_t>>(op.attributes.find(spec.name)->second);
    if (values.size() != spatial)
      return Verdict::refuse(
          fmt::format("{} has {} entries, want {}", spec.name, values.size(), spatial));
    for (int64_t value : values)
      if (value < spec.least || value > kLargestAttribute)
        return Verdict::refuse(fmt::format("{} has entry {}, want {} to {}", spec.name, value,
                                           spec.least, kLargestAttribute));
  }
  return Verdict::accept();
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace octet::reference

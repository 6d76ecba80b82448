// Expands, permutes, reshapes and packs the compact forms of float constants.
#include "lowering/program/stored_constant.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/half.h"
#include "core/base/number_types.h"
#include "lowering/program/blocks.h"
#include "lowering/program/quantized_constants.h"

namespace octet {
namespace {

template <typename T>
void expand_values(const StoredConstant& stored, const Tensor& integers, float* out) {
  const T* values = integers.data<T>();
  const float* scales = stored.scale.data<float>();
  const float* zero_points =
      stored.zero_point.defined() ? stored.zero_point.data<float>() : nullptr;
  for_each_block_run(stored.values.shape(), stored.scale.shape(),
                     [&](int64_t first, int64_t count, int64_t block) {
                       const float zero = zero_points == nullptr ? 0.0f : zero_points[block];
                       for (int64_t i = first; i < first + count; ++i)
                         out[i] = (static_cast<float>(values[i]) - zero) * scales[block];
                     });
}

// value(i): element i of the constant.
template <typename Value>
void expand_row_values(const StoredConstant& stored, int64_t row, std::span<float> out,
                       const Value& value) {
  const int64_t width = static_cast<int64_t>(out.size()), blocks = stored.scale.shape()[1];
  const int64_t first = row / (stored.values.shape()[0] / stored.scale.shape()[0]) * blocks;
  for (int64_t i = 0; i < width; ++i) {
    const int64_t block = first + i / (width / blocks);
    const float zero = stored.zero_point.defined() ? stored.zero_point.data<float>()[block] : 0.0f;
    out[static_cast<size_t>(i)] =
        (static_cast<float>(value(row * width + i)) - zero) * stored.scale.data<float>()[block];
  }
}

template <typename T>
bool lie_within(const Tensor& tensor, T low, T high) {
  const T* values = tensor.data<T>();
  return std::all_of(values, values + tensor.numel(),
                     [&](T value) { return low <= value && value <= high; });
}

int nibble_at(const uint8_t* bytes, int64_t i, bool is_signed) {
  const int nibble = bytes[i / 2] >> (i % 2 * 4) & 0xF;
  return is_signed ? (nibble ^ 8) - 8 : nibble;
}

bool all_finite(const Tensor& tensor) {
  const Tensor reals = tensor.contiguous();
  return std::all_of(reals.data<float>(), reals.data<float>() + reals.numel(),
                     [](float real) { return std::isfinite(real); });
}

Tensor with_shape(const Tensor& tensor, const std::vector<int64_t>& shape) {
  return Tensor(tensor.storage(), tensor.dtype(), shape, contiguous_strides(shape),
                tensor.offset());
}

std::vector<int64_t> without_ones(const std::vector<int64_t>& shape) {
  std::vector<int64_t> sizes;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(sizes),
               [](int64_t size) { return size != 1; });
  return sizes;
}

}  // namespace

bool StoredConstant::fits_nibbles() const {
  if (nibbles.defined()) return true;
  if (values.dtype() == DType::kInt8) return lie_within<int8_t>(values, -8, 7);
  return values.dtype() == DType::kUInt8 && lie_within<uint8_t>(values, 0, 15);
}

Tensor StoredConstant::integers() const {
  return nibbles.defined() ? unpack_nibbles(nibbles, values.dtype(), values.shape()) : values;
}

StoredConstant stored_constant(const Tensor& values, const TensorQParams& qparams) {
  std::vector<int64_t> blocks(values.shape().size(), 1);
  if (!qparams.is_per_tensor())
    blocks[static_cast<size_t>(qparams.axis)] = values.shape()[static_cast<size_t>(qparams.axis)];
  StoredConstant stored{
      values.contiguous(), Tensor::from<float>(DType::kFloat32, blocks, qparams.scale), {}};
  if (std::any_of(qparams.zero_point.begin(), qparams.zero_point.end(),
                  [](int32_t zero) { return zero != 0; })) {
    const std::vector<float> zeros(qparams.zero_point.begin(), qparams.zero_point.end());
    stored.zero_point = Tensor::from<float>(DType::kFloat32, blocks, zeros);
  }
  return stored;
}

StoredConstant stored_half(const Tensor& values) { return {values.contiguous(), {}, {}}; }

Tensor half_constant(const Tensor& given) {
  const Tensor real = given.contiguous();
  Tensor values = Tensor::zeros(DType::kFloat16, real.shape());
  std::transform(real.data<float>(), real.data<float>() + real.numel(), values.data<uint16_t>(),
                 float_to_half);
  return values;
}

Tensor expand(const StoredConstant& stored) {
  Tensor real = Tensor::zeros(DType::kFloat32, stored.values.shape());
  if (stored.values.dtype() == DType::kFloat16) {
    std::transform(stored.values.data<uint16_t>(), stored.values.data<uint16_t>() + real.numel(),
                   real.data<float>(), half_to_float);
  } else {
    const Tensor integers = stored.integers();
    visit_integer_type(integers.dtype(), [&](auto* type) {
      expand_values<std::remove_pointer_t<decltype(type)>>(stored, integers, real.data<float>());
    });
  }
  return real;
}

const Tensor& bytes_of(const StoredConstant& stored) {
  return stored.nibbles.defined() ? stored.nibbles : stored.values;
}

void expand_row(const StoredConstant& stored, int64_t row, std::span<float> out) {
  const int64_t width = static_cast<int64_t>(out.size());
  if (stored.values.dtype() == DType::kFloat16) {
    const uint16_t* values = stored.values.data<uint16_t>() + row * width;
    std::transform(values, values + width, out.begin(), half_to_float);
  } else if (stored.nibbles.defined()) {
    const uint8_t* bytes = stored.nibbles.data<uint8_t>();
    const bool is_signed = stored.values.dtype() == DType::kInt8;
    expand_row_values(stored, row, out, [=](int64_t i) { return nibble_at(bytes, i, is_signed); });
  } else {
    visit_integer_type(stored.values.dtype(), [&](auto* type) {
      const auto* values = stored.values.data<std::remove_pointer_t<decltype(type)>>();
      expand_row_values(stored, row, out, [=](int64_t i) { return values[i]; });
    });
  }
}

Tensor constant_data(const ProgramTensor& constant) {
  return constant.stored ? expand(*constant.stored) : constant.data;
}

ProgramTensor constant_tensor(const std::string& name, StoredConstant stored) {
  ProgramTensor tensor{
      name, DType::kFloat32, stored.values.shape(), {}, ProgramTensor::Role::kConstant, {}};
  tensor.stored = std::move(stored);
  return tensor;
}

std::string describe(const StoredConstant& stored) {
  if (!stored.scale.defined()) return std::string(short_name_of(stored.values.dtype()));
  return fmt::format("{}{} in {} blocks", stored.fits_nibbles() ? "4-bit " : "",
                     short_name_of(stored.values.dtype()), fmt::join(stored.scale.shape(), "x"));
}

std::string find_fault(const StoredConstant& stored) {
  if (stored.values.dtype() == DType::kFloat16)
    return stored.scale.defined() || stored.zero_point.defined() ? "float16 values have scales"
                                                                 : "";
  if (!is_integer(stored.values.dtype()) || size_of(stored.values.dtype()) > 2)
    return fmt::format("its values are {}, want integers of up to 16 bits",
                       name_of(stored.values.dtype()));
  if (!stored.scale.defined()) return "its integers have no scales";
  const std::vector<int64_t>& shape = stored.values.shape();
  const std::vector<int64_t>& blocks = stored.scale.shape();
  if (blocks.size() != shape.size())
    return fmt::format("scales have {} dimensions, want {}", blocks.size(), shape.size());
  for (size_t d = 0; d < shape.size(); ++d)
    if (blocks[d] < 0 || (shape[d] != 0 && (blocks[d] == 0 || shape[d] % blocks[d] != 0)))
      return fmt::format("dimension {} of size {} is cut into {} blocks, want a divisor", d,
                         shape[d], blocks[d]);
  if (stored.scale.dtype() != DType::kFloat32)
    return fmt::format("scales are {}, want float32", name_of(stored.scale.dtype()));
  if (stored.zero_point.defined() &&
      (stored.zero_point.shape() != blocks || stored.zero_point.dtype() != DType::kFloat32))
    return "zero points differ from the scales in shape, or are not float32";
  return "";
}

bool has_finite_scales(const StoredConstant& stored) {
  return (!stored.scale.defined() || all_finite(stored.scale)) &&
         (!stored.zero_point.defined() || all_finite(stored.zero_point));
}

StoredConstant permuted(const StoredConstant& stored, const std::vector<int64_t>& dims) {
  const auto moved = [&](const Tensor& tensor) {
    return tensor.defined() ? permute_constant(tensor, dims) : Tensor();
  };
  return {moved(stored.integers()), moved(stored.scale), moved(stored.zero_point)};
}

std::optional<StoredConstant> reshaped(const StoredConstant& stored,
                                       const std::vector<int64_t>& shape) {
  if (!stored.scale.defined()) return StoredConstant{with_shape(stored.values, shape), {}, {}};
  if (without_ones(stored.values.shape()) != without_ones(shape)) return std::nullopt;
  std::vector<int64_t> kept;  // the blocks of dimensions that are not of size 1
  for (size_t d = 0; d < stored.values.shape().size(); ++d)
    if (stored.values.shape()[d] != 1) kept.push_back(stored.scale.shape()[d]);
  std::vector<int64_t> blocks;
  size_t next = 0;
  for (int64_t size : shape) blocks.push_back(size == 1 ? 1 : kept[next++]);
  return StoredConstant{
      with_shape(stored.integers(), shape), with_shape(stored.scale, blocks),
      stored.zero_point.defined() ? with_shape(stored.zero_point, blocks) : Tensor()};
}

Tensor pack_nibbles(const Tensor& values) {
  const int64_t count = values.numel();
  Tensor bytes = Tensor::zeros(DType::kUInt8, {(count + 1) / 2});
  const uint8_t* from = values.data<uint8_t>();
  uint8_t* to = bytes.data<uint8_t>();
  for (int64_t i = 0; i < count; ++i)
    to[i / 2] = static_cast<uint8_t>(to[i / 2] | (from[i] & 0xFu) << (i % 2 * 4));
  return bytes;
}

Tensor unpack_nibbles(const Tensor& bytes, DType dtype, const std::vector<int64_t>& shape) {
  Tensor values = Tensor::zeros(dtype, shape);
  const uint8_t* from = bytes.data<uint8_t>();
  uint8_t* to = values.data<uint8_t>();
  for (int64_t i = 0, count = values.numel(); i < count; ++i)
    to[i] = static_cast<uint8_t>(nibble_at(from, i, dtype == DType::kInt8));
  return values;
}

}  // namespace octet

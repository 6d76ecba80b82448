// Expands, permutes, reshapes and packs the compact forms of float constants.
#include "lowering/program/stored_constant.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
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

// Element i of scales or zero points.
float number_at(const Tensor& numbers, int64_t i) {
  switch (numbers.dtype()) {
    case DType::kInt8: return numbers.data<int8_t>()[i];
    case DType::kUInt8: return numbers.data<uint8_t>()[i];
    case DType::kFloat16: return half_to_float(numbers.data<uint16_t>()[i]);
    case DType::kBFloat16: return bfloat_to_float(numbers.data<uint16_t>()[i]);
    default: return numbers.data<float>()[i];
  }
}

constexpr DType kNumberTypes[] = {DType::kInt8, DType::kUInt8, DType::kBFloat16, DType::kFloat16,
                                  DType::kFloat32};

Tensor widened(const Tensor& numbers) {
  if (!numbers.defined() || numbers.dtype() == DType::kFloat32)
    return numbers.defined() ? numbers.contiguous() : numbers;
  const Tensor dense = numbers.contiguous();
  Tensor reals = Tensor::zeros(DType::kFloat32, dense.shape());
  for (int64_t i = 0; i < dense.numel(); ++i) reals.data<float>()[i] = number_at(dense, i);
  return reals;
}

// `real` in the dtype's bits, rounded.
uint16_t bits_of(float real, DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return static_cast<uint8_t>(static_cast<int8_t>(std::clamp(real, -128.0f, 127.0f)));
    case DType::kUInt8: return static_cast<uint8_t>(std::clamp(real, 0.0f, 255.0f));
    case DType::kFloat16: return float_to_half(real);
    default: return float_to_bfloat(real);
  }
}

template <typename T>
void expand_values(const StoredConstant& stored, const Tensor& integers, float* out) {
  const T* values = integers.data<T>();
  const Tensor all_scales = stored.scales(), all_zero_points = stored.zero_points();
  const float* scales = all_scales.data<float>();
  const float* zero_points = all_zero_points.defined() ? all_zero_points.data<float>() : nullptr;
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
  for (int64_t block = 0, i = 0; block < blocks; ++block) {
    const float scale = number_at(stored.scale, first + block);
    const float zero =
        stored.zero_point.defined() ? number_at(stored.zero_point, first + block) : 0.0f;
    for (; i < (block + 1) * (width / blocks); ++i)
      out[static_cast<size_t>(i)] = (static_cast<float>(value(row * width + i)) - zero) * scale;
  }
}

// The fewest bits that hold all values; any number above 4 where 4 do not suffice.
template <typename T>
int needed_bits(const Tensor& tensor) {
  const T* values = tensor.data<T>();
  unsigned used = 0;  // a bit for each that some value has: of its magnitude, where it is signed
  constexpr int kSign = std::is_signed_v<T> ? 1 : 0;
  for (int64_t i = 0; i < tensor.numel() && std::bit_width(used) + kSign <= 4; ++i)
    used |= static_cast<unsigned>(values[i] < 0 ? ~values[i] : values[i]);
  return std::bit_width(used) + kSign;
}

template <int kBits>
int packed_value(const uint8_t* bytes, int64_t i, bool is_signed) {
  const int64_t first = i * kBits;
  const int shift = static_cast<int>(first % 8);
  int value = bytes[first / 8] >> shift;
  if (shift + kBits > 8) value |= bytes[first / 8 + 1] << (8 - shift);
  constexpr int kSign = 1 << (kBits - 1);
  value &= 2 * kSign - 1;
  return is_signed ? (value ^ kSign) - kSign : value;
}

// Calls visit(at), where at(i) is packed value i.
template <typename Visit>
void visit_packed(const Tensor& packed, int bits, bool is_signed, const Visit& visit) {
  const uint8_t* bytes = packed.data<uint8_t>();
  if (bits == 2) return visit([=](int64_t i) { return packed_value<2>(bytes, i, is_signed); });
  if (bits == 3) return visit([=](int64_t i) { return packed_value<3>(bytes, i, is_signed); });
  visit([=](int64_t i) { return packed_value<4>(bytes, i, is_signed); });
}

bool all_finite(const Tensor& tensor) {
  const Tensor reals = widened(tensor);
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

int StoredConstant::bits() const {
  if (packed.defined()) return packed_bits;
  if (size_of(values.dtype()) != 1) return static_cast<int>(size_of(values.dtype())) * 8;
  const int needed =
      values.dtype() == DType::kInt8 ? needed_bits<int8_t>(values) : needed_bits<uint8_t>(values);
  return needed > 4 ? 8 : std::max(needed, 2);
}

Tensor StoredConstant::integers() const {
  return packed.defined() ? unpack_bits(packed, packed_bits, values.dtype(), values.shape())
                          : values;
}

Tensor StoredConstant::scales() const { return widened(scale); }
Tensor StoredConstant::zero_points() const { return widened(zero_point); }

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
  return stored.packed.defined() ? stored.packed : stored.values;
}

void expand_row(const StoredConstant& stored, int64_t row, std::span<float> out) {
  const int64_t width = static_cast<int64_t>(out.size());
  if (stored.values.dtype() == DType::kFloat16) {
    const uint16_t* values = stored.values.data<uint16_t>() + row * width;
    std::transform(values, values + width, out.begin(), half_to_float);
  } else if (stored.packed.defined()) {
    visit_packed(stored.packed, stored.packed_bits, stored.values.dtype() == DType::kInt8,
                 [&](const auto& at) { expand_row_values(stored, row, out, at); });
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
  return fmt::format("{}{} in {} blocks",
                     stored.bits() < 8 ? fmt::format("{}-bit ", stored.bits()) : "",
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
  constexpr const char* kWanted = "float32, float16, bfloat16, int8 or uint8";
  const auto is_known = [](const Tensor& numbers) {
    return std::ranges::find(kNumberTypes, numbers.dtype()) != std::end(kNumberTypes);
  };
  if (!is_known(stored.scale))
    return fmt::format("scales are {}, want {}", name_of(stored.scale.dtype()), kWanted);
  if (stored.zero_point.defined() &&
      (stored.zero_point.shape() != blocks || !is_known(stored.zero_point)))
    return fmt::format("zero points differ from the scales in shape, or are not {}", kWanted);
  return "";
}

bool has_finite_scales(const StoredConstant& stored) {
  return (!stored.scale.defined() || all_finite(stored.scale)) &&
         (!stored.zero_point.defined() || all_finite(stored.zero_point));
}

bool has_zero_points(const StoredConstant& stored, float usual) {
  if (!stored.zero_point.defined()) return usual != 0;
  const Tensor zeros = stored.zero_points();
  return std::any_of(zeros.data<float>(), zeros.data<float>() + zeros.numel(),
                     [&](float zero) { return zero != usual; });
}

std::optional<std::vector<float>> find_row_scales(const ProgramTensor& constant) {
  const std::optional<StoredConstant>& stored = constant.stored;
  if (!stored || stored->values.dtype() != DType::kInt8 || !stored->scale.defined() ||
      constant.shape.empty() || constant.numel() == 0)
    return std::nullopt;
  const Tensor scale = stored->scales();
  const std::vector<int64_t>& blocks = scale.shape();
  const bool has_groups = std::any_of(blocks.begin() + 1, blocks.end(),
                                      [](int64_t count) { return count != 1; });  // within a row
  if (has_groups || has_zero_points(*stored)) return std::nullopt;
  const int64_t rows = constant.shape[0], rows_per_scale = rows / blocks[0];
  std::vector<float> scales;
  for (int64_t row = 0; row < rows; ++row)
    scales.push_back(scale.data<float>()[row / rows_per_scale]);
  return scales;
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

int64_t packed_size(int64_t count, int bits) {
  return count / 8 * bits + (count % 8 * bits + 7) / 8;
}

Tensor pack_bits(const Tensor& values, int bits) {
  const int64_t count = values.numel();
  Tensor bytes = Tensor::zeros(DType::kUInt8, {packed_size(count, bits)});
  const uint8_t* from = values.data<uint8_t>();
  uint8_t* to = bytes.data<uint8_t>();
  const unsigned mask = (1u << bits) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = i * bits;
    const unsigned placed = (from[i] & mask) << (first % 8);
    to[first / 8] = static_cast<uint8_t>(to[first / 8] | placed);
    if (placed > 0xff) to[first / 8 + 1] = static_cast<uint8_t>(placed >> 8);
  }
  return bytes;
}

Tensor unpack_bits(const Tensor& bytes, int bits, DType dtype, const std::vector<int64_t>& shape) {
  Tensor values = Tensor::zeros(dtype, shape);
  uint8_t* to = values.data<uint8_t>();
  visit_packed(bytes, bits, dtype == DType::kInt8, [&](const auto& at) {
    for (int64_t i = 0, count = values.numel(); i < count; ++i) to[i] = static_cast<uint8_t>(at(i));
  });
  return values;
}

Tensor narrowed(const Tensor& reals) {
  constexpr int64_t kFew = 16;  // floats that a file pads to 64 bytes in any dtype
  if (!reals.defined() || reals.dtype() != DType::kFloat32 || reals.numel() <= kFew) return reals;
  const Tensor given = reals.contiguous();
  for (DType dtype : kNumberTypes) {
    if (dtype == DType::kFloat32) break;
    Tensor result = Tensor::zeros(dtype, given.shape());
    bool is_exact = true;
    for (int64_t i = 0; i < given.numel() && is_exact; ++i) {
      const float real = given.data<float>()[i];
      const uint16_t bits = std::isfinite(real) ? bits_of(real, dtype) : 0;  // little endian
      std::memcpy(result.raw() + static_cast<size_t>(i) * size_of(dtype), &bits, size_of(dtype));
      is_exact = std::bit_cast<uint32_t>(number_at(result, i)) == std::bit_cast<uint32_t>(real);
    }
    if (is_exact) return result;
  }
  return reals;
}

}  // namespace octet

// Strides and element types.
#include "backends/onednn/form.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <numeric>

#include <fmt/format.h>

#include "core/base/shape.h"

namespace octet::onednn {
namespace {

// Row-major strides for dimensions nested in `order` (outermost first).
Dims strides_in_order(const Dims& shape, const std::vector<size_t>& order) {
  Dims strides(shape.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(shape[order[i]], 1);
  }
  return strides;
}

}  // namespace

ElementType element_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return ElementType::f32;
    case DType::kUInt8: return ElementType::u8;
    case DType::kInt8: return ElementType::s8;
    case DType::kInt16: return kS16;
    case DType::kInt32: return ElementType::s32;
    default:
      throw Refusal{fmt::format("oneDNN kernels here take float32, uint8, int8 and int16, got {}",
                                name_of(dtype))};
  }
}

std::shared_ptr<std::byte> aligned_block(int64_t bytes) {
  constexpr size_t kAlignment = 64;
  void* block = std::aligned_alloc(
      kAlignment,
      (std::max<size_t>(static_cast<size_t>(bytes), 1) + kAlignment - 1) / kAlignment * kAlignment);
  if (block == nullptr) throw std::bad_alloc();
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(block), std::free);
}

int64_t bytes_of(ElementType type) {
  if (type == ElementType::bf16 || type == kS16) return 2;
  return type == ElementType::u8 || type == ElementType::s8 ? 1 : 4;
}

QuantParams as_unsigned(QuantParams quant_params) {
  if (quant_params.type == ElementType::s8)
    quant_params = {ElementType::u8, quant_params.scale, quant_params.zero_point + 128};
  return quant_params;
}

int64_t Stored::numel() const { return product(shape); }

Stored with_rank(Stored stored, size_t rank) {
  while (stored.shape.size() < rank) {
    stored.strides.insert(stored.strides.begin(),
                          stored.shape.empty() ? 1 : stored.strides[0] * stored.shape[0]);
    stored.shape.insert(stored.shape.begin(), 1);
  }
  return stored;
}

Dims row_major(const Dims& shape) { return contiguous_strides(shape); }

Dims channels_last(const Dims& shape) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (shape.size() >= 3 && shape.size() <= 5)
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return strides_in_order(shape, order);
}

bool same_strides(const Dims& shape, const Dims& a, const Dims& b) {
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 && a[i] != b[i]) return false;
  return true;
}

std::string to_text(const Stored& stored) {
  const char* type = stored.quant_params.type == kS16
                         ? "s16"
                         : dnnl_dt2str(dnnl::memory::convert_to_c(stored.quant_params.type));
  if (same_strides(stored.shape, stored.strides, row_major(stored.shape)))
    return fmt::format("{} rows", type);
  const bool is_channels_last =
      stored.shape.size() == 4 &&
      same_strides(stored.shape, stored.strides, channels_last(stored.shape));
  return fmt::format("{} {}", type,
                     is_channels_last                         ? "nhwc"
                     : is_dense(stored.shape, stored.strides) ? "permuted"
                                                              : "strided");
}

bool is_dense(const Dims& shape, const Dims& strides) {
  return same_strides(shape, strides, dense_like(shape, strides));
}

Dims dense_like(const Dims& shape, const Dims& like) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return like[a] > like[b]; });
  return strides_in_order(shape, order);
}

// Rounds half to even.
int quantize_one(double real, const QuantParams& quant_params) {
  const double steps = std::nearbyint(real / quant_params.scale) + quant_params.zero_point;
  if (std::isnan(steps)) return quant_params.lowest();
  return static_cast<int>(std::clamp<double>(steps, quant_params.lowest(), quant_params.highest()));
}

StepRange clamp_in_steps(const QuantParams& quant_params, const Clamp& clamp) {
  StepRange range{quant_params.lowest(), quant_params.highest()};
  if (clamp.min) range.low = quantize_one(*clamp.min, quant_params);
  if (clamp.max) range.high = quantize_one(*clamp.max, quant_params);
  return range;
}

std::optional<ByteScale> byte_scale_of(const QuantParams& q) {
  if (!q.is_integer()) return std::nullopt;
  return q.type == ElementType::u8 ? ByteScale{q.scale, q.zero_point - 128, 128}
                                   : ByteScale{q.scale, q.zero_point, 0};
}

RealForm real_form_of(const QuantParams& q) {
  const DType dtype = q.type == kS16              ? DType::kInt16
                      : q.type == ElementType::s8 ? DType::kInt8
                      : q.type == ElementType::u8 ? DType::kUInt8
                                                  : DType::kFloat32;
  return {dtype, q.scale, q.zero_point};
}

ByteOutput byte_output_of(const QuantParams& y, const StepRange& range) {
  const int shift = y.type == ElementType::u8 ? 128 : 0;
  return byte_output(*byte_scale_of(y), range.low - shift, range.high - shift);
}

}  // namespace octet::onednn

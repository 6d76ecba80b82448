// torchao's affine quantization, with one scale and zero point per block of block_size elements,
// and the choose_qparams ops of torchao and quantized_decomposed.
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/round.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e4m3fnuz.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Float8_e5m2fnuz.h>

#include "core/ops/qdq_kernels.h"

namespace octet::qdq {
namespace {

using c10::Scalar;

struct Range {
  Scalar min;
  Scalar max;
  double low() const { return min.toDouble(); }
  double high() const { return max.toDouble(); }
};

template <typename T>
Range finite_range() {
  return {Scalar(static_cast<double>(std::numeric_limits<T>::lowest())),
          Scalar(static_cast<double>(std::numeric_limits<T>::max()))};
}

Range signed_range(int bits) {
  return {Scalar(-(int64_t{1} << (bits - 1))), Scalar((int64_t{1} << (bits - 1)) - 1)};
}
Range unsigned_range(int bits) { return {Scalar(int64_t{0}), Scalar((int64_t{1} << bits) - 1)}; }

// Bits of uint1 ... uint7, whose values are stored as uint8; 0 for other dtypes.
int sub_byte_unsigned_bits(ScalarType dtype) {
  constexpr ScalarType kTypes[] = {ScalarType::UInt1, ScalarType::UInt2, ScalarType::UInt3,
                                   ScalarType::UInt4, ScalarType::UInt5, ScalarType::UInt6,
                                   ScalarType::UInt7};
  for (size_t i = 0; i < std::size(kTypes); ++i)
    if (dtype == kTypes[i]) return static_cast<int>(i) + 1;
  return 0;
}

int sub_byte_signed_bits(ScalarType dtype) {
  constexpr ScalarType kTypes[] = {ScalarType::Int1, ScalarType::Int2, ScalarType::Int3,
                                   ScalarType::Int4, ScalarType::Int5, ScalarType::Int6,
                                   ScalarType::Int7};
  for (size_t i = 0; i < std::size(kTypes); ++i)
    if (dtype == kTypes[i]) return static_cast<int>(i) + 1;
  return 0;
}

Range range_of(ScalarType dtype) {
  if (const int bits = sub_byte_unsigned_bits(dtype)) return unsigned_range(bits);
  if (const int bits = sub_byte_signed_bits(dtype)) return signed_range(bits);
  switch (dtype) {
    case ScalarType::Byte: return unsigned_range(8);
    case ScalarType::Char: return signed_range(8);
    case ScalarType::Short: return signed_range(16);
    case ScalarType::Int: return signed_range(32);
    case ScalarType::Float8_e4m3fn: return finite_range<c10::Float8_e4m3fn>();
    case ScalarType::Float8_e5m2: return finite_range<c10::Float8_e5m2>();
    case ScalarType::Float8_e4m3fnuz: return finite_range<c10::Float8_e4m3fnuz>();
    case ScalarType::Float8_e5m2fnuz: return finite_range<c10::Float8_e5m2fnuz>();
    default: TORCH_CHECK_VALUE(false, "unsupported dtype: ", dtype);
  }
}

// The given range, by default the dtype's. Throws when it exceeds the dtype's.
Range checked_range(ScalarType dtype, const std::optional<Scalar>& quant_min,
                    const std::optional<Scalar>& quant_max) {
  const Range bounds = range_of(dtype);
  const Range range = {quant_min.value_or(bounds.min), quant_max.value_or(bounds.max)};
  TORCH_CHECK(range.low() >= bounds.low(), "quant_min out of bounds for ", dtype, ", got ",
              range.low(), ", want at least ", bounds.low());
  TORCH_CHECK(range.high() <= bounds.high(), "quant_max out of bounds for ", dtype, ", got ",
              range.high(), ", want at most ", bounds.high());
  return range;
}

bool is_high_precision(ScalarType dtype) {
  return dtype == ScalarType::Float || dtype == ScalarType::Half || dtype == ScalarType::BFloat16;
}

// Shapes of views in which blocks are dimensions: input [3, 3, 10, 10] with blocks [3, 3, 2, 10]
// gives values [3, 3, 5, 2, 10], parameters [1, 1, 5, 1, 1] and the reduced dimensions 0, 1, 3, 4.
struct BlockView {
  std::vector<int64_t> values;
  std::vector<int64_t> parameters;
  std::vector<int64_t> reduced;
};

BlockView block_view(at::IntArrayRef sizes, at::IntArrayRef block_size) {
  TORCH_CHECK(block_size.size() == sizes.size(), "the input has ", sizes.size(),
              " dimensions, got block_size ", block_size);
  BlockView view;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (block_size[d] != sizes[d] && block_size[d] > 1) {
      TORCH_CHECK(sizes[d] % block_size[d] == 0, "size ", sizes[d], " of dimension ", d,
                  " must be divisible by its block size ", block_size[d]);
      view.values.push_back(sizes[d] / block_size[d]);
      view.parameters.push_back(sizes[d] / block_size[d]);
      view.reduced.push_back(static_cast<int64_t>(view.values.size()));
      view.values.push_back(block_size[d]);
      view.parameters.push_back(1);
    } else {
      if (block_size[d] != 1) view.reduced.push_back(static_cast<int64_t>(view.values.size()));
      view.values.push_back(sizes[d]);
      view.parameters.push_back(block_size[d] != 1 ? 1 : sizes[d]);
    }
  }
  return view;
}

double smallest_normal(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Float:
    case ScalarType::BFloat16: return static_cast<double>(std::numeric_limits<float>::min());
    case ScalarType::Half: return 6.103515625e-05;
    case ScalarType::Double: return std::numeric_limits<double>::min();
    default: TORCH_CHECK_TYPE(false, "expecting a floating point input, but got dtype: ", dtype);
  }
}

at::Tensor symmetric_scale(const at::Tensor& low, const at::Tensor& high, const Range& range,
                           bool without_clipping) {
  if (!without_clipping) return at::maximum(-low, high) / ((range.high() - range.low()) / 2);
  const at::Tensor from_low = low / range.low();
  const at::Tensor from_high = high / range.high();
  return at::where(from_low > from_high, from_low, from_high);
}

// `scale` repeated to the shape of the tensor unless it broadcasts already.
at::Tensor expand_scale(const at::Tensor& scale, at::IntArrayRef sizes) {
  if (scale.numel() == 1) return scale;
  const auto rank = std::min(sizes.size(), static_cast<size_t>(scale.dim()));
  bool broadcasts = true;
  for (size_t d = 0; d < rank; ++d)
    broadcasts = broadcasts && (scale.sizes()[d] == sizes[d] || scale.sizes()[d] == 1);
  if (broadcasts) return scale;
  TORCH_CHECK_VALUE(static_cast<size_t>(scale.dim()) == sizes.size(), "the scale has ", scale.dim(),
                    " dimensions, want ", sizes.size());
  at::Tensor expanded = scale;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t blocks = scale.sizes()[d];
    TORCH_CHECK_VALUE(blocks > 0 && sizes[d] % blocks == 0, "size ", sizes[d], " of dimension ", d,
                      " must be divisible by ", blocks, " scales");
    if (sizes[d] > blocks)
      expanded = at::repeat_interleave(expanded, sizes[d] / blocks, static_cast<int64_t>(d));
  }
  return expanded;
}

// choose_qparams of quantized_decomposed: scale and zero point from the range of a tensor or of
// each row.

using c10::Scalar;

// The range widened to include 0; nothing when the tensor has no range, which torch's observers
// start with.
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

QParamTensors choose_qparams_affine(const std::optional<at::Tensor>& given,
                                    c10::string_view mapping_type,
                                    c10::SymIntArrayRef symbolic_block_size,
                                    ScalarType target_dtype, const std::optional<Scalar>& quant_min,
                                    const std::optional<Scalar>& quant_max,
                                    std::optional<double> eps, OptionalType scale_dtype,
                                    OptionalType zero_point_dtype, bool keepdim) {
  const Range range = checked_range(target_dtype, quant_min, quant_max);
  const bool is_symmetric = mapping_type == "SYMMETRIC",
             is_unclipped = mapping_type == "SYMMETRIC_NO_CLIPPING_ERR";
  TORCH_CHECK(is_symmetric || is_unclipped || mapping_type == "ASYMMETRIC",
              "unsupported mapping type: ", mapping_type);
  TORCH_CHECK(given.has_value() && given->defined(), "choose_qparams_affine needs an input");
  const at::IntArrayRef block_size = C10_AS_INTARRAYREF_SLOW(symbolic_block_size);
  const double least = eps.has_value() ? *eps : smallest_normal(given->scalar_type());
  const BlockView view = block_view(given->sizes(), block_size);
  const at::Tensor input = given->view(view.values);
  const at::Tensor lowest = at::amin(input, view.reduced, keepdim);
  const at::Tensor highest = at::amax(input, view.reduced, keepdim);
  const at::Tensor low = at::minimum(lowest, at::zeros_like(lowest));
  const at::Tensor high = at::maximum(highest, at::zeros_like(highest));
  at::Tensor scale, zero_point;
  if (is_symmetric || is_unclipped) {
    scale = symmetric_scale(low, high, range, is_unclipped);
    zero_point = at::full_like(scale, Scalar(std::trunc((range.high() + range.low() + 1) / 2)));
    scale = at::clamp(scale, Scalar(least));
  } else {
    scale = at::clamp((high - low) / (range.high() - range.low()), Scalar(least));
    zero_point = at::clamp(at::rsub(at::round(low / scale), range.min), range.min, range.max);
    if (!zero_point_dtype.has_value()) zero_point_dtype = ScalarType::Int;
  }
  if (keepdim) {
    std::vector<int64_t> blocks;
    for (size_t d = 0; d < block_size.size(); ++d)
      blocks.push_back(given->sizes()[d] / block_size[d]);
    scale = scale.reshape(blocks);
    zero_point = zero_point.reshape(blocks);
  }
  return {scale.to(scale_dtype.value_or(given->scalar_type())),
          zero_point.to(zero_point_dtype.value_or(zero_point.scalar_type()))};
}

at::Tensor quantize_affine(const at::Tensor& input, c10::SymIntArrayRef block_size,
                           const at::Tensor& scale, const std::optional<at::Tensor>& zero_point,
                           ScalarType output_dtype, const std::optional<Scalar>& quant_min,
                           const std::optional<Scalar>& quant_max) {
  const Range range = checked_range(output_dtype, quant_min, quant_max);
  TORCH_CHECK(is_high_precision(input.scalar_type()),
              "unsupported input dtype: ", input.scalar_type());
  const BlockView view = block_view(input.sizes(), C10_AS_INTARRAYREF_SLOW(block_size));
  const at::Tensor values = input.view(view.values);
  const at::Tensor steps = at::round(values * at::reciprocal(scale.view(view.parameters)));
  TORCH_CHECK_TYPE(zero_point.has_value() && zero_point->defined() && zero_point->numel() > 0,
                   "quantize_affine needs a zero point");
  const at::Tensor clamped =
      at::clamp(steps + zero_point->view(view.parameters), range.min, range.max);
  return clamped.view(input.sizes())
      .to(sub_byte_unsigned_bits(output_dtype) > 0 ? ScalarType::Byte : output_dtype);
}

at::Tensor dequantize_affine(const at::Tensor& input, c10::SymIntArrayRef block_size,
                             const at::Tensor& scale, const std::optional<at::Tensor>& zero_point,
                             ScalarType input_dtype, const std::optional<Scalar>& quant_min,
                             const std::optional<Scalar>& quant_max, ScalarType output_dtype) {
  TORCH_CHECK(sub_byte_unsigned_bits(input_dtype) > 0 || input.scalar_type() == input_dtype,
              "expecting input to have dtype: ", input_dtype,
              ", but got dtype: ", input.scalar_type());
  TORCH_CHECK(is_high_precision(output_dtype), "unsupported output dtype: ", output_dtype);
  checked_range(input_dtype, quant_min, quant_max);
  const BlockView view = block_view(input.sizes(), C10_AS_INTARRAYREF_SLOW(block_size));
  at::Tensor real = input.view(view.values).to(output_dtype);
  if (zero_point.has_value() && zero_point->defined())
    real = real - zero_point->view(view.parameters).to(output_dtype);
  return (real * scale.view(view.parameters)).view(input.sizes()).to(output_dtype);
}

at::Tensor quantize_affine_float8(const at::Tensor& tensor, const at::Tensor& scale,
                                  ScalarType float8_dtype) {
  const Range range = range_of(float8_dtype);
  TORCH_CHECK_TYPE(c10::isFloat8Type(float8_dtype),
                   "expecting a float8 dtype, but got: ", float8_dtype);
  const at::Tensor steps = tensor.to(ScalarType::Float) / expand_scale(scale, tensor.sizes());
  return at::clamp(steps, Scalar(-range.high()), range.max).to(float8_dtype);
}

at::Tensor dequantize_affine_float8(const at::Tensor& tensor, const at::Tensor& scale,
                                    ScalarType output_dtype) {
  return (tensor.to(ScalarType::Float) * expand_scale(scale, tensor.sizes())).to(output_dtype);
}

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
  // Takes the zero point from the end of the range where the other one would cause the larger
  // error.
  const at::Tensor error = (steps_low + kMin) + (steps_high + kMax);
  const at::Tensor zero_point =
      at::where(error > 0, at::rsub(steps_low, Scalar(kMin)), at::rsub(steps_high, Scalar(kMax)));
  return {scale.to(ScalarType::Double),
          at::clamp(zero_point, Scalar(kMin), Scalar(kMax)).round().to(ScalarType::Long)};
}

}  // namespace octet::qdq

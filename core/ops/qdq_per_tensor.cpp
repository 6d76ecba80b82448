// quantize_per_tensor, dequantize_per_tensor, convert_element_type.
#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/round.h>
#include <ATen/ops/sub.h>

#include "core/ops/qdq_kernels.h"

// One clone per vector width, chosen when the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define OCTET_VECTOR_CLONES \
  __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))
#else
#define OCTET_VECTOR_CLONES
#endif

namespace octet::qdq {
namespace {

struct Bounds {
  ScalarType type;
  int64_t min;
  int64_t max;
};

constexpr Bounds kBounds[] = {
    {ScalarType::Byte, 0, 255},
    {ScalarType::Char, -128, 127},
    {ScalarType::UInt16, 0, 65535},
    {ScalarType::Short, -32768, 32767},
    {ScalarType::Int, -2147483648LL, 2147483647LL},
    {ScalarType::Float8_e4m3fn, -448, 448},
    {ScalarType::Float8_e5m2, -57344, 57344},
};

const Bounds* find_bounds(ScalarType dtype) {
  const auto found = std::find_if(std::begin(kBounds), std::end(kBounds),
                                  [&](const Bounds& row) { return row.type == dtype; });
  return found == std::end(kBounds) ? nullptr : &*found;
}

// With integers up to 16 bits and so small a zero point, every value beyond kHuge steps is clamped
// anyway. So clamping to kHuge first changes nothing, and below it adding and subtracting kRounder
// rounds half to even.
constexpr float kHuge = 4194304.0F;      // 2^22
constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23
constexpr int64_t kLargeZeroPoint = 1 << 20;

template <typename T>
OCTET_VECTOR_CLONES void quantize_run(const float* in, T* out, int64_t n, float inverse,
                                      float zero_point, float low, float high) {
  for (int64_t i = 0; i < n; ++i) {
    float steps = in[i] * inverse;
    steps = steps < -kHuge ? -kHuge : steps;
    steps = steps > kHuge ? kHuge : steps;
    steps = (steps + kRounder) - kRounder;
    steps += zero_point;
    steps = steps < low ? low : steps;
    steps = steps > high ? high : steps;
    out[i] = static_cast<T>(static_cast<int32_t>(steps));
  }
}

template <typename T>
OCTET_VECTOR_CLONES void dequantize_run(const T* in, float* out, int64_t n, float scale,
                                        float zero_point) {
  for (int64_t i = 0; i < n; ++i) out[i] = (static_cast<float>(in[i]) - zero_point) * scale;
}

constexpr int64_t kGrain = 32768;  // least number of elements per thread

template <typename T>
at::Tensor quantize_linear(const at::Tensor& input, at::Tensor output, float inverse,
                           float zero_point, float low, float high) {
  const float* in = input.const_data_ptr<float>();
  T* out = output.mutable_data_ptr<T>();
  at::parallel_for(0, input.numel(), kGrain, [&](int64_t begin, int64_t end) {
    quantize_run(in + begin, out + begin, end - begin, inverse, zero_point, low, high);
  });
  return output;
}

template <typename T>
at::Tensor dequantize_linear(const at::Tensor& input, at::Tensor output, float scale,
                             float zero_point) {
  const T* in = input.const_data_ptr<T>();
  float* out = output.mutable_data_ptr<float>();
  at::parallel_for(0, input.numel(), kGrain, [&](int64_t begin, int64_t end) {
    dequantize_run(in + begin, out + begin, end - begin, scale, zero_point);
  });
  return output;
}

// Calls run() with a number of the integer type; an undefined tensor for other types.
template <typename Run>
at::Tensor with_integer_type(ScalarType dtype, const Run& run) {
  switch (dtype) {
    case ScalarType::Byte:
      return run(uint8_t{});
    case ScalarType::Char:
      return run(int8_t{});
    case ScalarType::UInt16:
      return run(uint16_t{});
    case ScalarType::Short:
      return run(int16_t{});
    default:
      return at::Tensor();
  }
}

// An output with the layout of `input`, when one pass over its memory visits each element once;
// undefined otherwise.
at::Tensor dense_output(const at::Tensor& input, ScalarType dtype) {
  if (!input.is_non_overlapping_and_dense()) return at::Tensor();
  at::Tensor output = at::empty_like(input, input.options().dtype(dtype));
  return output.strides() == input.strides() ? output : at::Tensor();
}

void check_one_element(const at::Tensor& tensor, const char* name) {
  TORCH_CHECK(tensor.numel() == 1, "expecting the ", name,
              " tensor to be one element, but received: ", tensor.numel());
}

}  // namespace

bool is_quantized_type(ScalarType dtype) { return find_bounds(dtype) != nullptr; }

void check_bounds(int64_t quant_min, int64_t quant_max, ScalarType dtype) {
  const Bounds* bounds = find_bounds(dtype);
  TORCH_CHECK(bounds != nullptr, "unsupported dtype: ", dtype);
  TORCH_CHECK(quant_min >= bounds->min, "quant_min out of bounds for ", dtype, ", got ", quant_min,
              ", want at least ", bounds->min);
  TORCH_CHECK(quant_max <= bounds->max, "quant_max out of bounds for ", dtype, ", got ", quant_max,
              ", want at most ", bounds->max);
}

at::Tensor to_float32(const at::Tensor& input) {
  const ScalarType type = input.scalar_type();
  if (type == ScalarType::Half || type == ScalarType::BFloat16) return input.to(ScalarType::Float);
  TORCH_CHECK(type == ScalarType::Float,
              "expecting input to have dtype Float, but got dtype: ", type);
  return input;
}

at::Tensor quantize_per_tensor(const at::Tensor& original, double scale, int64_t zero_point,
                               int64_t quant_min, int64_t quant_max, ScalarType dtype) {
  const at::Tensor input = to_float32(original);
  check_bounds(quant_min, quant_max, dtype);
  TORCH_CHECK(scale != 0, "expecting a scale that is not zero");
  const double inverse = 1.0 / scale;
  if (std::abs(zero_point) <= kLargeZeroPoint && quant_min <= quant_max) {
    const auto run = [&]<typename T>(T) -> at::Tensor {
      at::Tensor output = dense_output(input, dtype);
      if (!output.defined()) return output;
      return quantize_linear<T>(input, std::move(output), static_cast<float>(inverse),
                                static_cast<float>(zero_point), static_cast<float>(quant_min),
                                static_cast<float>(quant_max));
    };
    at::Tensor output = with_integer_type(dtype, run);
    if (output.defined()) return output;
  }
  return at::clamp(at::round(at::mul(input, inverse)).add(zero_point), c10::Scalar(quant_min),
                   c10::Scalar(quant_max))
      .to(dtype);
}

at::Tensor quantize_per_tensor_tensor(const at::Tensor& input, const at::Tensor& scale,
                                      const at::Tensor& zero_point, int64_t quant_min,
                                      int64_t quant_max, ScalarType dtype) {
  check_one_element(zero_point, "zero_point");
  check_one_element(scale, "scale");
  return quantize_per_tensor(input, scale.item().toDouble(), zero_point.item().toLong(), quant_min,
                             quant_max, dtype);
}

at::Tensor quantize_per_tensor_tensor2(const at::Tensor& input, const at::Tensor& scale,
                                       const at::Tensor& zero_point, const at::Tensor& quant_min,
                                       const at::Tensor& quant_max, ScalarType dtype) {
  return quantize_per_tensor_tensor(input, scale, zero_point, quant_min.item().toLong(),
                                    quant_max.item().toLong(), dtype);
}

at::Tensor dequantize_per_tensor(const at::Tensor& input, double scale, int64_t zero_point, int64_t,
                                 int64_t, ScalarType dtype, OptionalType out_dtype) {
  TORCH_CHECK(input.scalar_type() == dtype, "expecting input to have dtype: ", dtype, ", but got ",
              input.scalar_type());
  TORCH_CHECK(is_quantized_type(dtype), "unsupported dtype in dequantize_per_tensor: ", dtype);
  const ScalarType wanted = out_dtype.value_or(ScalarType::Float);
  if (wanted == ScalarType::Float) {
    const auto run = [&]<typename T>(T) -> at::Tensor {
      at::Tensor output = dense_output(input, ScalarType::Float);
      if (!output.defined()) return output;
      return dequantize_linear<T>(input, std::move(output), static_cast<float>(scale),
                                  static_cast<float>(zero_point));
    };
    at::Tensor output = with_integer_type(dtype, run);
    if (output.defined()) return output;
  }
  return at::mul(at::sub(input.to(wanted), c10::Scalar(zero_point)), c10::Scalar(scale));
}

at::Tensor dequantize_per_tensor_tensor(const at::Tensor& input, const at::Tensor& scale,
                                        const at::Tensor& zero_point, int64_t quant_min,
                                        int64_t quant_max, ScalarType dtype,
                                        OptionalType out_dtype) {
  check_one_element(zero_point, "zero_point");
  check_one_element(scale, "scale");
  return dequantize_per_tensor(input, scale.item().toDouble(), zero_point.item().toLong(),
                               quant_min, quant_max, dtype, out_dtype);
}

at::Tensor dequantize_per_tensor_tensor2(const at::Tensor& input, const at::Tensor& scale,
                                         const at::Tensor& zero_point, const at::Tensor& quant_min,
                                         const at::Tensor& quant_max, ScalarType dtype,
                                         OptionalType out_dtype) {
  return dequantize_per_tensor_tensor(input, scale, zero_point, quant_min.item().toLong(),
                                      quant_max.item().toLong(), dtype, out_dtype);
}

at::Tensor convert_element_type(const at::Tensor& input, ScalarType dtype) {
  return input.to(dtype, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace octet::qdq

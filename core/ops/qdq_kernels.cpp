// The kernels with one scale, and those with a scale per channel, per group of a row, or per token.
#include <algorithm>
#include <numeric>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/round.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/base/shape.h"
#include "core/base/vector_clones.h"
#include "core/ops/qdq_kernels.h"

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
  const auto found =
      std::ranges::find_if(kBounds, [&](const Bounds& row) { return row.type == dtype; });
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
    case ScalarType::Byte: return run(uint8_t{});
    case ScalarType::Char: return run(int8_t{});
    case ScalarType::UInt16: return run(uint16_t{});
    case ScalarType::Short: return run(int16_t{});
    default: return at::Tensor();
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

using c10::Scalar;

int64_t check_axis(const at::Tensor& input, int64_t axis) {
  TORCH_CHECK(axis < input.dim() && axis >= -input.dim(), "expecting axis to be < ", input.dim(),
              ", but got ", axis);
  return wrap_dim(axis, input.dim());
}

// The order of dimensions with `axis` and 0 swapped; applied twice it is the identity.
std::vector<int64_t> swap_to_front(int64_t rank, int64_t axis) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[static_cast<size_t>(axis)]);
  return order;
}

// [channels] as [channels, 1, 1, ...]
at::Tensor along_front(const at::Tensor& values, int64_t rank) {
  std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
  shape[0] = values.size(0);
  return values.view(shape);
}

// [channels] with 1 everywhere but at `axis`
at::Tensor along_axis(const at::Tensor& values, int64_t rank, int64_t axis) {
  at::Tensor result = values;
  for (int64_t d = 0; d < rank; ++d)
    if (d != axis) result = result.unsqueeze(d);
  return result;
}

// The group size for `input`; one group per row when a single scale per row is given.
int64_t check_groups(const at::Tensor& input, const at::Tensor& scales, int64_t group_size) {
  TORCH_CHECK(group_size > 1, "group_size must be > 1, got ", group_size);
  TORCH_CHECK(input.dim() == 2, "input must be 2-dimensional, got ", input.dim(), " dimensions");
  if (group_size > input.size(-1) && scales.dim() > 0 && scales.size(-1) == 1)
    group_size = input.size(-1);
  TORCH_CHECK(input.size(-1) % group_size == 0, "the last size ", input.size(-1),
              " must be divisible by group_size ", group_size);
  return group_size;
}

class FakeQuantPerChannel : public torch::autograd::Function<FakeQuantPerChannel> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& scales, const at::Tensor& zero_points, int64_t axis,
                            int64_t quant_min, int64_t quant_max) {
    TORCH_CHECK(input.scalar_type() == ScalarType::Float,
                "expecting input to have dtype Float, but got dtype: ", input.scalar_type());
    axis = check_axis(input, axis);
    const at::Tensor scale = along_axis(scales.to(ScalarType::Float), input.dim(), axis);
    const at::Tensor zero_point = along_axis(zero_points.to(ScalarType::Int), input.dim(), axis);
    const at::Tensor steps = at::round(input * at::reciprocal(scale)) + zero_point;
    context->save_for_backward({at::logical_and(steps >= quant_min, steps <= quant_max)});
    return (at::clamp(steps, Scalar(quant_min), Scalar(quant_max)) - zero_point) * scale;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor mask = context->get_saved_variables().at(0);
    return {gradients.at(0) * mask, at::Tensor(), at::Tensor(),
            at::Tensor(),           at::Tensor(), at::Tensor()};
  }
};

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

at::Tensor quantize_per_channel(const at::Tensor& original, const at::Tensor& scales,
                                const at::Tensor& zero_points, int64_t axis, int64_t quant_min,
                                int64_t quant_max, ScalarType dtype) {
  const at::Tensor input = to_float32(original);
  axis = check_axis(input, axis);
  check_bounds(quant_min, quant_max, dtype);
  const std::vector<int64_t> order = swap_to_front(input.dim(), axis);
  const at::Tensor steps =
      at::round(input.permute(order) * at::reciprocal(along_front(scales, input.dim()))) +
      along_front(zero_points, input.dim());
  return at::clamp(steps, Scalar(quant_min), Scalar(quant_max)).permute(order).to(dtype);
}

at::Tensor dequantize_per_channel(const at::Tensor& input, const at::Tensor& scales,
                                  const std::optional<at::Tensor>& zero_points, int64_t axis,
                                  int64_t quant_min, int64_t quant_max, ScalarType dtype,
                                  OptionalType out_dtype) {
  TORCH_CHECK(input.scalar_type() == dtype, "expecting input to have dtype: ", dtype,
              ", but got dtype: ", input.scalar_type());
  axis = check_axis(input, axis);
  check_bounds(quant_min, quant_max, dtype);
  const std::vector<int64_t> order = swap_to_front(input.dim(), axis);
  at::Tensor values = input.permute(order);
  if (zero_points.has_value()) values = values - along_front(*zero_points, input.dim());
  return (values * along_front(scales, input.dim()))
      .to(out_dtype.value_or(ScalarType::Float))
      .permute(order);
}

at::Tensor fake_quant_per_channel(const at::Tensor& input, const at::Tensor& scales,
                                  const at::Tensor& zero_points, int64_t axis, int64_t quant_min,
                                  int64_t quant_max) {
  return FakeQuantPerChannel::apply(input, scales, zero_points, axis, quant_min, quant_max);
}

at::Tensor quantize_per_channel_group(const at::Tensor& input, const at::Tensor& scales,
                                      const at::Tensor& zero_points, int64_t quant_min,
                                      int64_t quant_max, ScalarType dtype, int64_t group_size) {
  group_size = check_groups(input, scales, group_size);
  const at::Tensor groups = input.reshape({-1, group_size});
  TORCH_CHECK(!at::isnan(groups).any().item().toBool(), "the input must not contain NaNs");
  return at::mul(groups, at::reciprocal(scales.reshape({-1, 1})))
      .add(zero_points.reshape({-1, 1}))
      .round()
      .clamp(Scalar(quant_min), Scalar(quant_max))
      .to(dtype)
      .reshape_as(input);
}

at::Tensor dequantize_per_channel_group(const at::Tensor& input, const at::Tensor& scales,
                                        const std::optional<at::Tensor>& zero_points, int64_t,
                                        int64_t, ScalarType, int64_t group_size,
                                        ScalarType output_dtype) {
  group_size = check_groups(input, scales, group_size);
  const at::Tensor zero_point =
      zero_points.has_value() ? zero_points->reshape({-1, 1}) : at::zeros({}, ScalarType::Int);
  return input.reshape({-1, group_size})
      .sub(zero_point)
      .mul(scales.reshape({-1, 1}))
      .reshape_as(input)
      .to(output_dtype);
}

at::Tensor quantize_per_token(const at::Tensor& input, const at::Tensor& scales,
                              const at::Tensor& zero_points, int64_t quant_min, int64_t quant_max,
                              ScalarType dtype) {
  check_bounds(quant_min, quant_max, dtype);
  TORCH_CHECK(input.dim() > 0, "input must have at least one dimension");
  int64_t tokens = 1;
  for (int64_t d = 0; d + 1 < input.dim(); ++d) tokens *= input.size(d);
  TORCH_CHECK(tokens == scales.numel(), "the input has ", tokens, " rows, got ", scales.numel(),
              " scales");
  TORCH_CHECK(tokens == zero_points.numel(), "the input has ", tokens, " rows, got ",
              zero_points.numel(), " zero points");
  return at::mul(input, at::reciprocal(scales))
      .add(zero_points)
      .round()
      .clamp(Scalar(quant_min), Scalar(quant_max))
      .to(dtype);
}

at::Tensor dequantize_per_token(const at::Tensor& input, const at::Tensor& scales,
                                const at::Tensor& zero_points, int64_t, int64_t, ScalarType,
                                ScalarType output_dtype) {
  return ((input - zero_points) * scales).to(output_dtype);
}

}  // namespace octet::qdq

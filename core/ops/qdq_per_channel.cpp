// Quantization with several scales: per channel, per group of a row, per token (row).
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/round.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/base/shape.h"
#include "core/ops/qdq_kernels.h"

namespace octet::qdq {
namespace {

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

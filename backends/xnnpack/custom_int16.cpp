// Runs ops that read or write int16 activations with the kernels of backends/kernels.
#include "backends/xnnpack/custom_ops.h"
#include "backends/xnnpack/native_ops.h"

namespace octet::xnnpack {
namespace {

// Bytes are signed inside of a segment.
Int16Place int16_place(const ProgramTensor& tensor, Order order) {
  RealForm form = real_form(tensor);
  if (form.dtype == DType::kUInt8) form = {DType::kInt8, form.scale, signed_zero_point(tensor)};
  return {form, strides_in(tensor.shape, order)};
}

}  // namespace

std::vector<CustomStep> int16_steps(const Program& program, const ProgramOp& op,
                                    std::span<const Order> from, Order to, pthreadpool_t) {
  std::vector<Int16Place> inputs;
  for (size_t i : int16_inputs(op)) inputs.push_back(int16_place(program.input(op, i), from[i]));
  return {
      {int16_inputs(op), Int16Kernel(program, op, inputs, int16_place(program.output(op), to))}};
}

}  // namespace octet::xnnpack

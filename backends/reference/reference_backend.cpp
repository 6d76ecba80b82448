// The list of kernels, and their use on a segment.
#include "backends/reference/reference_backend.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "backends/reference/kernel.h"
#include "core/error.h"

namespace octet {
namespace {

const reference::KernelRow* find_kernel(const std::string& kind) {
  for (const auto& rows : {reference::conv_kernels(), reference::matmul_kernels(), reference::elementwise_kernels(), reference::pool_kernels(),
                           reference::norm_kernels(), reference::shape_kernels(), reference::reduce_kernels(), reference::recurrent_kernels(),
                           reference::custom_kernels()})
    for (const reference::KernelRow& row : rows)
      if (kind == row.kind) return &row;
  return nullptr;
}

bool is_known_dtype(DType dtype) { return dtype == DType::kBool || is_integer(dtype) || (is_floating_point(dtype) && size_of(dtype) >= 2); }

Verdict check_op(const Program& program, const ProgramOp& op) {
  const reference::KernelRow* row = find_kernel(op.kind);
  if (row == nullptr) return Verdict::refuse(fmt::format("{} has no kernel in the reference backend", op.kind));
  for (const std::vector<int>* tensors : {&op.inputs, &op.outputs})
    for (int index : *tensors) {
      if (index < 0) continue;
      const ProgramTensor& tensor = program.tensors[static_cast<size_t>(index)];
      if (!is_known_dtype(tensor.dtype))
        return Verdict::refuse(fmt::format("{} has dtype {}, which the reference kernels lack", tensor.name, name_of(tensor.dtype)));
      if (tensor.qparams && size_of(tensor.dtype) > 4)
        return Verdict::refuse(fmt::format("{} is quantized to {}, want at most 32 bits", tensor.name, name_of(tensor.dtype)));
    }
  return row->check(program, op);
}

class ReferenceSegment : public CompiledSegment {
 public:
  ReferenceSegment(const Program& program, const Segment& segment) : program_(program), segment_(segment) {
    for (int index : segment_.ops) {
      const ProgramOp& op = program_.ops[static_cast<size_t>(index)];
      const Verdict verdict = check_op(program_, op);
      if (verdict) continue;
      throw Error("session", op.name,
                  fmt::format("cannot run on the reference backend: {}{}", verdict.reason(), op.kind == "custom" ? "" : "; lower the model again"));
    }
    plan_lifetimes();
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    std::vector<Tensor> tensors(program_.tensors.size());
    for (size_t i = 0; i < segment_.inputs.size(); ++i) tensors[static_cast<size_t>(segment_.inputs[i])] = inputs[i];
    for (size_t i = 0; i < segment_.outputs.size(); ++i) tensors[static_cast<size_t>(segment_.outputs[i])] = outputs[i];
    for (size_t step = 0; step < segment_.ops.size(); ++step) {
      run_op(program_.ops[static_cast<size_t>(segment_.ops[step])], tensors);
      for (int index : dead_after_[step]) tensors[static_cast<size_t>(index)] = Tensor();
    }
  }

 private:
  // dead_after_[step]: intermediates that no later op of the segment reads.
  void plan_lifetimes() {
    std::map<int, size_t> last_use;
    for (size_t step = 0; step < segment_.ops.size(); ++step) {
      const ProgramOp& op = program_.ops[static_cast<size_t>(segment_.ops[step])];
      for (int index : op.inputs) last_use[index] = step;
      for (int index : op.outputs) last_use[index] = step;
    }
    dead_after_.resize(segment_.ops.size());
    for (const auto& [index, step] : last_use)
      if (index >= 0) dead_after_[step].push_back(index);
  }

  void run_op(const ProgramOp& op, std::vector<Tensor>& tensors) const {
    reference::KernelCall call{program_, op, {}, {}};
    for (int index : op.inputs) {
      if (index < 0) {
        call.inputs.emplace_back();
        continue;
      }
      const ProgramTensor& info = program_.tensors[static_cast<size_t>(index)];
      call.inputs.push_back(info.role == ProgramTensor::Role::kConstant ? info.data : tensors[static_cast<size_t>(index)]);
      OCTET_ASSERT(call.inputs.back().defined(), op.name + ": input " + info.name + " is not there");
    }
    for (int index : op.outputs) {
      Tensor& tensor = tensors[static_cast<size_t>(index)];
      const ProgramTensor& info = program_.tensors[static_cast<size_t>(index)];
      if (!tensor.defined()) tensor = Tensor::zeros(info.dtype, info.shape);
      call.outputs.push_back(tensor);
    }
    find_kernel(op.kind)->run(call);
  }

  const Program& program_;
  const Segment segment_;
  std::vector<std::vector<int>> dead_after_;
};

}  // namespace

Verdict ReferenceSupport::accepts(const Program& program, const ProgramOp& op) const { return check_op(program, op); }

std::unique_ptr<CompiledSegment> ReferenceBackend::compile(const Program& program, const Segment& segment, int) const {
  return std::make_unique<ReferenceSegment>(program, segment);
}

}  // namespace octet

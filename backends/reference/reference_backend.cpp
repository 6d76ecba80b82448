// The list of kernels, and their use on a segment.
#include "backends/reference/reference_backend.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "backends/reference/kernel.h"
#include "core/base/error.h"
#include "lowering/program/arena_plan.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

const reference::KernelRow* find_kernel(const std::string& kind) {
  for (const auto& rows :
       {reference::conv_kernels(), reference::matmul_kernels(), reference::elementwise_kernels(),
        reference::pool_kernels(), reference::norm_kernels(), reference::shape_kernels(),
        reference::reduce_kernels(), reference::recurrent_kernels(), reference::custom_kernels(),
        reference::binary_kernels(), reference::unary_kernels(), reference::index_kernels(),
        reference::order_kernels(), reference::nonzero_kernels(), reference::sample_kernels(),
        reference::bag_kernels(), reference::column_kernels()})
    for (const reference::KernelRow& row : rows)
      if (kind == row.kind) return &row;
  return nullptr;
}

bool is_known_dtype(DType dtype) {
  return dtype == DType::kBool || is_integer(dtype) ||
         (is_floating_point(dtype) && size_of(dtype) >= 2);
}

Verdict check_op(const Program& program, const ProgramOp& op) {
  const reference::KernelRow* row = find_kernel(op.kind);
  if (row == nullptr)
    return Verdict::refuse(fmt::format("{} has no kernel in the reference backend", op.kind));
  for (const std::vector<int>* tensors : {&op.inputs, &op.outputs})
    for (int index : *tensors) {
      if (index < 0) continue;
      const ProgramTensor& tensor = program.tensor(index);
      if (!is_known_dtype(tensor.dtype))
        return Verdict::refuse(fmt::format("{} has dtype {}, which the reference kernels lack",
                                           tensor.name, name_of(tensor.dtype)));
      if (tensor.qparams && size_of(tensor.dtype) > 4)
        return Verdict::refuse(fmt::format("{} is quantized to {}, want at most 32 bits",
                                           tensor.name, name_of(tensor.dtype)));
    }
  return row->check(program, op);
}

class ReferenceSegment : public CompiledSegment {
 public:
  ReferenceSegment(const Program& program, const Segment& segment)
      : program_(program), segment_(segment) {
    for (int index : segment_.ops) {
      const ProgramOp& op = program_.op(index);
      const Verdict verdict = check_op(program_, op);
      if (verdict) continue;
      throw Error("session", op.name,
                  fmt::format("cannot run on the reference backend: {}{}", verdict.reason(),
                              op.kind == "custom" ? "" : "; lower the model again"));
    }
    plan_memory();
    for (int index : segment_.ops) add_call(program_.op(index));
    inputs_ = find(segment_.inputs);
    outputs_ = find(segment_.outputs);
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    for (size_t i = 0; i < inputs_.size(); ++i) *inputs_[i] = inputs[i];
    for (size_t i = 0; i < outputs_.size(); ++i) *outputs_[i] = outputs[i];
    const reference::ScratchPool::Use scratch(pool_);
    for (Call& call : calls_) {
      bind(call.inputs, call.call.op.inputs, call.call.inputs);
      bind(call.outputs, call.call.op.outputs, call.call.outputs);
      call.kernel(call.call);
    }
  }

 private:
  struct Call {
    reference::Kernel kernel;
    reference::KernelCall call;
    std::vector<const Tensor*> inputs, outputs;  // in tensors_; null: absent
  };

  // Intermediates lie in one block; those that are never in use at the same time share its bytes.
  void plan_memory() {
    std::map<int, ArenaBuffer> buffers;  // by tensor
    for (size_t step = 0; step < segment_.ops.size(); ++step) {
      const ProgramOp& op = program_.op(segment_.ops[step]);
      for (int index : op.outputs) {
        const ProgramTensor& tensor = program_.tensor(index);
        buffers.try_emplace(index,
                            ArenaBuffer{static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype),
                                        static_cast<int>(step), 0});
        buffers[index].last = static_cast<int>(step);
      }
      for (int index : op.inputs)
        if (const auto found = buffers.find(index); found != buffers.end())
          found->second.last = static_cast<int>(step);
    }
    for (int index : segment_.outputs) buffers.erase(index);  // the caller's memory
    tensors_ = allocate_arena(program_, buffers).tensors;
  }

  std::vector<Tensor*> find(const std::vector<int>& indices) {
    std::vector<Tensor*> found;
    for (int index : indices) found.push_back(index < 0 ? nullptr : &tensors_[index]);
    return found;
  }

  void add_call(const ProgramOp& op) {
    const std::vector<Tensor*> inputs = find(op.inputs), outputs = find(op.outputs);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] < 0) continue;
      const ProgramTensor& tensor = program_.input(op, i);
      if (tensor.is_constant() && !inputs[i]->defined() &&
          !reference::reads_as_stored(op, i, tensor))
        *inputs[i] = constant_data(tensor);
    }
    calls_.push_back(
        {find_kernel(op.kind)->run,
         {program_, op, std::vector<Tensor>(inputs.size()), std::vector<Tensor>(outputs.size())},
         {inputs.begin(), inputs.end()},
         {outputs.begin(), outputs.end()}});
  }

  // Assigning to what held an equal tensor before takes nothing from the heap.
  void bind(const std::vector<const Tensor*>& from, const std::vector<int>& indices,
            std::vector<Tensor>& tensors) const {
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] == nullptr) continue;
      tensors[i] = *from[i];
      OCTET_ASSERT(tensors[i].defined() || program_.tensor(indices[i]).stored,
                   "a tensor of the segment is there");
    }
  }

  const Program& program_;
  const Segment segment_;
  // By index, those of the segment alone: constants, views of the arena, and of each run inputs and
  // outputs. A map, as their addresses stay.
  std::map<int, Tensor> tensors_;
  std::vector<Tensor*> inputs_, outputs_;  // in tensors_, by position in the segment
  reference::ScratchPool pool_;
  std::vector<Call> calls_;
};

}  // namespace

Verdict ReferenceSupport::accepts(const Program& program, const ProgramOp& op) const {
  return check_op(program, op);
}

std::unique_ptr<CompiledSegment> ReferenceBackend::compile(const Program& program,
                                                           const Segment& segment, int) const {
  return std::make_unique<ReferenceSegment>(program, segment);
}

}  // namespace octet

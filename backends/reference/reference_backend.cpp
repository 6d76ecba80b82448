// Finds the kernel of each op, checks ops, and runs segments.
#include "backends/reference/reference_backend.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "backends/reference/kernel.h"
#include "core/base/error.h"
#include "core/base/tensor.h"
#include "lowering/program/arena_plan.h"
#include "lowering/program/custom_kernel.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

// ---- custom ops: run the kernel registered under the op's name (lowering/program/custom_kernel.h)

void run_custom(const reference::KernelCall& call) {
  const std::string name = call.op.get(attr::kCustomOp);
  const CustomKernel* kernel = find_custom_kernel(name);
  OCTET_ASSERT(kernel != nullptr, name);
  try {
    (*kernel)({call.op, call.inputs, call.outputs});
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error("run", fmt::format("{} ({})", call.op.name, name),
                fmt::format("its kernel says: {}", error.what()));
  }
  for (const Tensor& output : call.outputs)
    if (output.defined() && output.dtype() == DType::kBool)
      copy_as_bools({output.raw(), output.nbytes()}, output.raw());
}

Verdict check_custom(const Program& program, const ProgramOp& op) {
  const std::string name = op.get(attr::kCustomOp);
  if (find_custom_kernel(name) == nullptr)
    return Verdict::refuse(
        fmt::format("the custom op {} has no kernel in this process, want it registered; load its "
                    "library (--library)",
                    name));
  for (const std::vector<int>* tensors : {&op.inputs, &op.outputs})
    for (int index : *tensors)
      if (index >= 0 && program.tensor(index).qparams)
        return Verdict::refuse(fmt::format("{} is quantized, and custom ops compute in float",
                                           program.tensor(index).name));
  return Verdict::accept();
}

constexpr reference::KernelRow kCustomKernels[] = {
    {"custom", run_custom, check_custom},
};

// ---- the segment

bool is_known_dtype(DType dtype) {
  return dtype == DType::kBool || is_integer(dtype) ||
         (is_floating_point(dtype) && size_of(dtype) >= 2);
}

Verdict check_op(const Program& program, const ProgramOp& op) {
  const reference::KernelRow* row = reference::find_kernel(op.kind);
  if (row == nullptr)
    return Verdict::refuse(fmt::format("{} has no kernel in the reference backend", op.kind));
  if (const std::string fault = find_contract_fault(op); !fault.empty())
    return Verdict::refuse(fault);
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
                              op.is("custom") ? "" : "; lower the model again"));
    }
    tensors_ = allocate_arena(program_, buffers_inside(program_, segment_)).tensors;
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
        {reference::find_kernel(op.kind)->run,
         {program_, op, std::vector<Tensor>(inputs.size()), std::vector<Tensor>(outputs.size())},
         {inputs.begin(), inputs.end()},
         {outputs.begin(), outputs.end()}});
  }

  // Assigning a tensor of the same rank reuses its memory, so the heap is not used.
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
  // Tensors of the segment by index: constants, arena views, and in each run inputs and outputs. A
  // map, because pointers to elements must stay valid.
  std::map<int, Tensor> tensors_;
  std::vector<Tensor*> inputs_, outputs_;  // in tensors_, by position in the segment
  reference::ScratchPool pool_;
  std::vector<Call> calls_;
};

// Calls visit with each row.
template <typename Visit>
void for_each_kernel(const Visit& visit) {
  using namespace reference;
  for (const auto& rows :
       {conv_kernels(), matmul_kernels(), elementwise_kernels(), pool_kernels(), norm_kernels(),
        shape_kernels(), reduce_kernels(), binary_kernels(), index_kernels(), order_kernels(),
        linalg_kernels(), sample_kernels(), std::span<const KernelRow>(kCustomKernels)})
    for (const KernelRow& row : rows) visit(row);
}

}  // namespace

const reference::KernelRow* reference::find_kernel(std::string_view kind) {
  const KernelRow* found = nullptr;
  for_each_kernel([&](const KernelRow& row) {
    if (row.kind == kind) found = &row;
  });
  return found;
}

std::vector<std::string_view> ReferenceSupport::kinds() const {
  std::vector<std::string_view> kinds;
  for_each_kernel([&](const reference::KernelRow& row) { kinds.push_back(row.kind.name); });
  return kinds;
}

Verdict ReferenceSupport::accepts(const Program& program, const ProgramOp& op) const {
  return check_op(program, op);
}

std::unique_ptr<CompiledSegment> ReferenceBackend::compile(const Program& program,
                                                           const Segment& segment, int) const {
  return std::make_unique<ReferenceSegment>(program, segment);
}

}  // namespace octet

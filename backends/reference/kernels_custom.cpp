// Custom ops: calls what is registered under the op's name (lowering/program/custom_kernel.h).
#include <fmt/format.h>

#include "backends/reference/kernel.h"
#include "core/base/error.h"
#include "core/base/tensor.h"
#include "lowering/program/custom_kernel.h"

namespace octet::reference {
namespace {

void run_custom(const KernelCall& call) {
  const std::string name = call.op.text(kCustomOpAttribute, "");
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
  const std::string name = op.text(kCustomOpAttribute, "");
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
  return op.outputs.empty() ? Verdict::refuse("it has no output") : Verdict::accept();
}

constexpr KernelRow kCustomKernels[] = {
    {"custom", run_custom, check_custom},
};

}  // namespace

std::span<const KernelRow> custom_kernels() { return kCustomKernels; }

}  // namespace octet::reference

// Registers custom kernels by the name of the op that they run. A custom op stays one op of a
// Program (kind "custom"). The user's code registers its kernel before it lowers and before it
// opens a Session.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/tensor.h"
#include "lowering/program/program.h"

namespace octet {

// The arguments of one call. Tensors are contiguous and have the dtypes of the graph; they never
// hold quantized integers, because the ops around a custom op convert.
struct CustomCall {
  // the op, whose attributes are the arguments that are not tensors, by their names in the op's
  // schema, defaults included: op.get(attr::Real("beta")); attr::kCustomOp is the op's name
  const ProgramOp& op;
  // the tensor arguments in the order of the schema, with lists flattened; an absent optional
  // argument is undefined
  std::span<const Tensor> inputs;
  // preallocated with the recorded dtypes and shapes; the kernel fills them
  std::span<const Tensor> outputs;
};
using CustomKernel = std::function<void(const CustomCall&)>;

// Registers `kernel` for the op "acme.swish.default" (namespace, name, overload). The kernel must
// be thread-safe: sessions that run at the same time call it concurrently. Do not call this while
// other threads lower or open sessions. Throws Error("library", op, ...) for a malformed name, an
// empty kernel, and an op that already has a kernel.
void register_custom_kernel(const std::string& op, CustomKernel kernel);
// Null when the op has none. The pointer stays valid.
const CustomKernel* find_custom_kernel(const std::string& op);
// In alphabetical order.
std::vector<std::string> custom_kernel_names();

}  // namespace octet

// Registers kernels for custom ops, by the op's name. A custom op stays whole in a Program (kind
// "custom"), and a callback runs it that the user's code registers before it lowers and before it
// opens a Session.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/tensor.h"
#include "lowering/program/program.h"

namespace octet {

// Attribute of ops of kind "custom": which op it is, "acme.swish.default".
inline constexpr const char* kCustomOpAttribute = "custom_op";

// One call. Tensors are contiguous and hold floats or whatever dtype the graph has there, never
// quantized integers: the op's neighbours convert.
struct CustomCall {
  // its attributes: the arguments that are no tensors, by their names in the op's schema, defaults
  // included
  const ProgramOp& op;
  // the tensor arguments in the order of the schema, those of lists one by one; an absent optional
  // one is undefined
  std::span<const Tensor> inputs;
  // allocated, of the dtypes and shapes that the graph recorded; to be filled
  std::span<const Tensor> outputs;
};
using CustomKernel = std::function<void(const CustomCall&)>;

// Makes `kernel` run the op, "acme.swish.default" (namespace, name, overload). Called from several
// sessions at once when these run at once. Not while other threads lower or open sessions. Throws
// Error("library", op, ...) for a name of another form, without kernel, and when the op has one
// already.
void register_custom_kernel(const std::string& op, CustomKernel kernel);
// Null when the op has none. The pointer stays valid.
const CustomKernel* find_custom_kernel(const std::string& op);
// In alphabetical order.
std::vector<std::string> custom_kernel_names();

}  // namespace octet

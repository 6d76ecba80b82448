// Arrays of Python's libraries as tensors and back, sharing the bytes. Free of torch: its tensors
// come and go by DLPack.
#pragma once

#include <string>

#include <nanobind/nanobind.h>

#include "core/base/tensor.h"

namespace octet::python {

// Whose arrays a caller works with.
enum class Framework { kNumpy, kTorch };

// kTorch for a torch.Tensor, else kNumpy. Imports nothing.
Framework framework_of(nanobind::handle array);

// A view of the elements of a numpy array, of a torch tensor on the CPU, or of any object with
// DLPack or the buffer protocol; it keeps the array alive. subject: what errors name. Throws
// Error("session", subject, ...) for anything else. Wants the GIL.
Tensor tensor_of(nanobind::handle array, const std::string& subject);

// A new array on the bytes of `tensor`, which it keeps alive. Throws Error("session", subject, ...)
// for a dtype that the framework lacks. Wants the GIL.
nanobind::object array_of(const Tensor& tensor, Framework framework, const std::string& subject);

}  // namespace octet::python

// Converts arrays of Python's libraries to tensors and back, sharing the bytes. Needs no LibTorch:
// torch's tensors are passed by DLPack.
#pragma once

#include <string>

#include <nanobind/nanobind.h>

#include "core/base/tensor.h"

namespace octet::python {

// The library of a caller's arrays.
enum class Framework { kNumpy, kTorch };

// kTorch for a torch.Tensor, else kNumpy. Imports nothing.
Framework framework_of(nanobind::handle array);

// A view of the elements of a numpy array, of a torch tensor on the CPU, or of an object with
// DLPack or the buffer protocol. It keeps the array alive. subject: names the array in errors.
// Throws Error("session", subject, ...) for other objects. Needs the GIL.
Tensor tensor_of(nanobind::handle array, const std::string& subject);

// A new array on the bytes of `tensor`, which it keeps alive. Throws Error("session", subject, ...)
// for a dtype that the framework lacks. Needs the GIL.
nanobind::object array_of(const Tensor& tensor, Framework framework, const std::string& subject);

}  // namespace octet::python

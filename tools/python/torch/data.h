// Passes tensors between LibTorch and Python, and batches from Python to the flow, without copying.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <nanobind/nanobind.h>

namespace octet::python {

// All need the GIL. from_torch() throws Error("annotate", ...) for anything but a tensor on the
// CPU.
nanobind::object to_torch(const at::Tensor& tensor);
at::Tensor from_torch(nanobind::handle tensor);
// As from_torch(), with the tensor's strides; from_torch() copies a tensor that is not contiguous.
at::Tensor view_of_torch(nanobind::handle tensor);

// A batch: a sequence of torch tensors on the CPU, numbers, strings and None. Tensors share their
// memory and keep their strides. Needs the GIL.
std::vector<c10::IValue> values_of(nanobind::handle batch);

void bind_data(nanobind::module_& module);

}  // namespace octet::python

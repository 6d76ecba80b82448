// Passes tensors between LibTorch and Python without copying.
#pragma once

#include <ATen/core/Tensor.h>
#include <nanobind/nanobind.h>

namespace octet::python {

// All need the GIL. from_torch() throws Error("annotate", ...) for anything but a tensor on the
// CPU.
nanobind::object to_torch(const at::Tensor& tensor);
at::Tensor from_torch(nanobind::handle tensor);
// As from_torch(), with the tensor's strides; from_torch() copies a tensor that is not contiguous.
at::Tensor view_of_torch(nanobind::handle tensor);

}  // namespace octet::python

// Passes tensors between LibTorch and Python without copying.
#pragma once

#include <ATen/core/Tensor.h>
#include <nanobind/nanobind.h>

namespace octet::python {

// Both need the GIL. from_torch() throws Error("annotate", ...) for anything but a tensor on the
// CPU.
nanobind::object to_torch(const at::Tensor& tensor);
at::Tensor from_torch(nanobind::handle tensor);

}  // namespace octet::python

// Passes batches from Python to the flow without copying or writing them.
#pragma once

#include <vector>

#include <ATen/core/ivalue.h>
#include <nanobind/nanobind.h>

namespace octet::python {

// A batch: a sequence of torch tensors on the CPU, numbers, strings and None. Tensors share their
// memory and keep their strides. Needs the GIL.
std::vector<c10::IValue> values_of(nanobind::handle batch);

void bind_data(nanobind::module_& module);

}  // namespace octet::python

// octet.export_onnx.
#pragma once

#include <nanobind/nanobind.h>

namespace octet::python {

void bind_export(nanobind::module_& module);

}  // namespace octet::python

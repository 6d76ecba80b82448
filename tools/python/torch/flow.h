// octet.quantize, and prepare, calibrate and convert as steps.
#pragma once

#include <nanobind/nanobind.h>

namespace octet::python {

void bind_flow(nanobind::module_& module);

}  // namespace octet::python

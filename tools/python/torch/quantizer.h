// octet.Quantizer: a quantizer that Python wrote.
#pragma once

#include <nanobind/nanobind.h>

namespace octet::python {

void bind_quantizer(nanobind::module_& module);

}  // namespace octet::python

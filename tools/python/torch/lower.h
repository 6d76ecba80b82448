// octet.lower.
#pragma once

#include <nanobind/nanobind.h>

namespace octet::python {

void bind_lower(nanobind::module_& module);

}  // namespace octet::python

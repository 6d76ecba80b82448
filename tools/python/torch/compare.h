// octet.compare.
#pragma once

#include <nanobind/nanobind.h>

namespace octet::python {

void bind_compare(nanobind::module_& module);

}  // namespace octet::python

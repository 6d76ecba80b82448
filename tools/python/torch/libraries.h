// octet.load_library.
#pragma once

#include <nanobind/nanobind.h>

namespace octet::python {

void bind_libraries(nanobind::module_& module);

}  // namespace octet::python

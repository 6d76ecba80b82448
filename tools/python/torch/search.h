// octet.qat and octet.tune: training, and mixed precision.
#pragma once

#include <nanobind/nanobind.h>

namespace octet::python {

void bind_search(nanobind::module_& module);

}  // namespace octet::python

// octet.Error in Python.
#pragma once

#include <nanobind/nanobind.h>

namespace octet::python {

// From now on an Error that leaves the module becomes an `error`, a class whose constructor takes
// stage, subject and message.
void translate_errors(nanobind::handle error);

}  // namespace octet::python

// Defines octet_runtime._runtime, the module of the package that runs .octet files.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "backends/registry.h"
#include "tools/python/runtime/model.h"

NB_MODULE(_runtime, module) {
  module.doc() = "Runs .octet files: the compiled part of octet_runtime.";
  octet::python::translate_errors(nanobind::module_::import_("octet_runtime._error").attr("Error"));
  octet::python::bind_model(module);
  module.def("backends", octet::backend_names, "The names of the available backends.");
}

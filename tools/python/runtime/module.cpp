// Defines octet_runtime._runtime, the module of the package that runs .octet files.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "backends/registry.h"
#include "backends/runtime/load_plugin.h"
#include "tools/python/runtime/model.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

constexpr const char* kLoadPlugin =
    R"(Loads a plug-in, a shared library with one backend, and returns the backend's name.

path: of the library, which defines octet_plugin_entry (octet_plugin.h). load() then runs files that
    were lowered for the backend.

Loading a plug-in again changes nothing, and none is unloaded. Raises Error when the file is
missing or is not a plug-in, when its table has a fault, or its name is taken.)";

std::string load_plugin(const std::filesystem::path& path) {
  const nb::gil_scoped_release release;
  return octet::load_plugin(path.string());
}

}  // namespace

NB_MODULE(_runtime, module) {
  module.doc() = "Runs .octet files: the compiled part of octet_runtime.";
  octet::python::translate_errors(nb::module_::import_("octet_runtime._error").attr("Error"),
                                  "octet_runtime.load_plugin");
  octet::python::bind_model(module);
  module.def("load_plugin", load_plugin, "path"_a, kLoadPlugin);
  module.def("backends", octet::backend_names, "The names of the available backends.");
}

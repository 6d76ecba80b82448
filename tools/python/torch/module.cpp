// Defines octet._octet, the module of the package that quantizes. It uses the LibTorch that
// Python's torch has loaded.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <CLI/Error.hpp>

#include "backends/registry.h"
#include "backends/torch/torch_backend.h"
#include "core/base/error.h"
#include "quantizers/registry.h"
#include "tools/python/runtime/model.h"
#include "tools/python/torch/bindings.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/data.h"
#include "tools/python/torch/graph.h"
#include "tools/python/torch/settings.h"

namespace nb = nanobind;

namespace {

// Translates errors about conflicting settings: "--passes: want --calibration".
void translate_usage(const std::exception_ptr& thrown, void* type) {
  try {
    std::rethrow_exception(thrown);
  } catch (const CLI::Error& error) {
    const nb::handle error_type(static_cast<PyObject*>(type));
    const nb::object raised = error_type("quantize", "", error.what());
    PyErr_SetObject(error_type.ptr(), raised.ptr());
  }
}

}  // namespace

NB_MODULE(_octet, module) {
  using namespace octet::python;
  module.doc() = "Quantizes and lowers: the compiled part of octet.";
  const nb::object error = nb::module_::import_("octet_runtime._error").attr("Error");
  translate_errors(error, "octet.load_library");
  nb::register_exception_translator(translate_usage, error.ptr());
  octet::register_torch_backend();
  connect_messages(module);
  bind_model(module);
  bind_graph(module);
  bind_quantizer(module);
  bind_settings(module);
  bind_data(module);
  bind_flow(module);
  bind_training(module);
  bind_lower(module);
  bind_export(module);
  bind_compare(module);
  bind_conformance(module);
  bind_libraries(module);
  module.def("backends", octet::backend_names, "The names of the available backends.");
  module.def("quantizers", octet::quantizer_names, "The names of the built-in quantizers.");
}

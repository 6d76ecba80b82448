// nanobind passes what it says about arguments that no signature takes to PyErr_SetString. The
// linker calls this function instead (--wrap in CMakeLists.txt), which lets octet_runtime._error
// say it in plain words.
#include <cstring>

#include <nanobind/nanobind.h>

namespace nb = nanobind;

// NOLINTBEGIN(bugprone-reserved-identifier): names that the linker gives
extern "C" void __real_PyErr_SetString(PyObject* type, const char* text);

extern "C" void __wrap_PyErr_SetString(PyObject* type, const char* text) {
  if (std::strstr(text, "(): incompatible function arguments.") == nullptr)
    return __real_PyErr_SetString(type, text);
  try {
    const nb::object plain =
        nb::module_::import_("octet_runtime._error").attr("plain_type_error")(text);
    PyErr_SetObject(type, plain.ptr());
  } catch (const std::exception&) {
    __real_PyErr_SetString(type, text);
  }
}
// NOLINTEND(bugprone-reserved-identifier)

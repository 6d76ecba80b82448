#include "tools/python/runtime/errors.h"

#include <exception>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace nb = nanobind;

namespace octet::python {
namespace {

// Names of a file may be no UTF-8.
nb::str text_of(const std::string& text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

void translate(const std::exception_ptr& thrown, void* type) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::handle error_type(static_cast<PyObject*>(type));
    const nb::object raised =
        error_type(text_of(error.stage()), text_of(error.subject()), text_of(error.message()));
    PyErr_SetObject(error_type.ptr(), raised.ptr());
  }
}

}  // namespace

void translate_errors(nb::handle error) {
  // For as long as the process lives.
  nb::register_exception_translator(translate, error.inc_ref().ptr());
}

}  // namespace octet::python

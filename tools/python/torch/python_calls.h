// Calls Python code from C++.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "core/base/user_code.h"

namespace octet::python {

// A Python object that may be copied and destroyed without the GIL.
using HeldObject = std::shared_ptr<nanobind::object>;
inline HeldObject held(nanobind::object object) {
  return {new nanobind::object(std::move(object)), [](nanobind::object* held) {
            const nanobind::gil_scoped_acquire gil;
            delete held;
          }};
}

// Lets an exception of Python pass through Octet unchanged. Needs the GIL.
template <typename Call>
auto passing_on(const Call& call) {
  try {
    return call();
  } catch (const nanobind::python_error&) {
    throw ForeignException{std::current_exception()};
  }
}

// str(value), and the __name__ of a function or class. Need the GIL.
inline std::string text_of(nanobind::handle value) {
  return nanobind::cast<std::string>(nanobind::str(value));
}
inline std::string name_of(nanobind::handle value, const char* fallback) {
  return text_of(nanobind::getattr(value, "__name__", nanobind::str(fallback)));
}

}  // namespace octet::python

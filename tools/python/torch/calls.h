// Calls between Python and C++: long calls from Python, without the GIL, one at a time, and
// interruptible by Ctrl-C; and calls of Python code.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "core/base/user_code.h"

namespace octet::python {

// The mutex of all long calls (quantize, calibrate, ...), which share one progress bar and one
// message sink (tools/cli/common/messages.h).
std::mutex& flow_mutex();

// Sends messages and interrupts to Python from now on.
void connect_messages(nanobind::module_& module);

// Returns the result of `work`. REQUIRES: the GIL is held. Raises KeyboardInterrupt, and what a
// quantizer written in Python raised.
template <typename Work>
auto without_gil(const Work& work) {
  try {
    const nanobind::gil_scoped_release release;
    const std::lock_guard lock(flow_mutex());
    return work();
  } catch (const ForeignException& raised) {
    std::rethrow_exception(raised.error);
  }
}

// ---- calls of Python code

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

// How Python calls what takes long: without the GIL, one at a time, and so that Ctrl-C ends it.
#pragma once

#include <exception>
#include <mutex>
#include <utility>

#include <nanobind/nanobind.h>

namespace octet::python {

// Python's signal handler raised `error` (KeyboardInterrupt). No std::exception, as work is not to
// go on in spite of it.
struct Interrupted {
  std::exception_ptr error;
};

// The mutex of all flows: tools/cli/common/messages.h has one bar and one place for messages.
std::mutex& flow_mutex();

// Messages and interrupts of flows go to Python from now on.
void connect_messages(nanobind::module_& module);

// What `work` returns. REQUIRES: the GIL is held. Raises KeyboardInterrupt.
template <typename Work>
auto without_gil(const Work& work) {
  try {
    const nanobind::gil_scoped_release release;
    const std::lock_guard lock(flow_mutex());
    return work();
  } catch (const Interrupted& interrupted) {
    std::rethrow_exception(interrupted.error);
  }
}

}  // namespace octet::python

// Runs long calls from Python: without the GIL, one at a time, and interruptible by Ctrl-C.
#pragma once

#include <exception>
#include <mutex>
#include <utility>

#include <nanobind/nanobind.h>

namespace octet::python {

// Python's signal handler raised `error` (KeyboardInterrupt). Not a std::exception, so that no
// handler swallows it.
struct Interrupted {
  std::exception_ptr error;
};

// The mutex of all long calls (quantize, calibrate, ...), which share one progress bar and one
// message sink (tools/cli/common/messages.h).
std::mutex& flow_mutex();

// Sends messages and interrupts to Python from now on.
void connect_messages(nanobind::module_& module);

// Returns the result of `work`. REQUIRES: the GIL is held. Raises KeyboardInterrupt.
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

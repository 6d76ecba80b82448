// Runs long calls from Python: without the GIL, one at a time, and interruptible by Ctrl-C.
#pragma once

#include <exception>
#include <mutex>
#include <utility>

#include <nanobind/nanobind.h>

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

}  // namespace octet::python

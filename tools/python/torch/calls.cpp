#include "tools/python/torch/calls.h"

#include <string>
#include <vector>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "tools/cli/common/messages.h"

namespace nb = nanobind;

namespace octet::python {
namespace {

// Messages since Python last fetched them.
struct Messages {
  std::mutex mutex;
  std::vector<std::pair<bool, std::string>> lines;
};

Messages& messages() {
  static Messages all;
  return all;
}

void check_signals() {
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0)
    throw ForeignException{std::make_exception_ptr(nb::python_error())};
}

// function(stage, done, total) is called whenever work advances; None: nothing is.
void set_progress(const nb::object& function) {
  if (function.is_none()) return set_progress_sink({});
  set_progress_sink([function](std::string_view stage, size_t done, size_t total) {
    const nb::gil_scoped_acquire gil;
    try {
      function(stage, done, total);
    } catch (const nb::python_error&) {
      throw ForeignException{std::current_exception()};
    }
  });
}

}  // namespace

std::mutex& flow_mutex() {
  static std::mutex mutex;
  return mutex;
}

void connect_messages(nb::module_& module) {
  set_message_sink([](bool is_warning, std::string_view text) {
    const std::lock_guard lock(messages().mutex);
    messages().lines.emplace_back(is_warning, text);
  });
  set_interrupt_check(check_signals);
  module.def(
      "take_messages",
      [] {
        const std::lock_guard lock(messages().mutex);
        return std::exchange(messages().lines, {});
      },
      "(is a warning, text) of each message since the last call.");
  module.def("set_progress", set_progress, nb::arg("function").none(),
             "Called with (stage, done, total) whenever work advances.");
  module.def("set_quiet", set_quiet, nb::arg("quiet"), "Whether no progress is drawn on stderr.");
}

}  // namespace octet::python

// Reads the options of the command (tools/cli/common/options.h) from a Python dict with those that
// differ from their defaults, and returns results.
#pragma once

#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nlohmann/json.hpp>

#include "tools/cli/common/options.h"
#include "tools/python/torch/graph.h"

namespace octet::python {

// The result of quantization that Python keeps.
struct Outcome {
  GraphHandle graph;
  std::string report, page;        // JSON; "": none
  std::vector<std::string> lines;  // the figures as text
  std::string io;                  // JSON; "" without quantized inputs and outputs
};

// Sets the fields of the options in the dict; None counts as absent. Throws Error(stage, name, ...)
// for values of another type, out of range, or not among the choices. Needs the GIL.
void take(const nanobind::dict& settings, const Options& options, const char* stage);

// The files that the settings name.
std::vector<std::string> sources_of(const nanobind::dict& settings);

// JSON text in ASCII; names need not be valid UTF-8.
std::string text_of(const nlohmann::ordered_json& json);

void bind_settings(nanobind::module_& module);

}  // namespace octet::python

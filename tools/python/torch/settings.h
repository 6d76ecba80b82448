// Options of the command (tools/cli/common/options.h) as Python gives them, in a dict of those that
// are not left to their defaults, and the results.
#pragma once

#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nlohmann/json.hpp>

#include "tools/cli/common/options.h"
#include "tools/python/torch/graph.h"

namespace octet::python {

// What Python keeps of a quantized program.
struct Outcome {
  GraphHandle graph;
  std::string report, page;        // JSON; "": none
  std::vector<std::string> lines;  // the figures, for people
  std::string io;                  // JSON; "" without quantized inputs and outputs
};

// Sets the fields of the options that are given; None counts as left out. Throws Error(stage, name,
// ...) for values of another type, out of range, or not among the choices. Needs the GIL.
void take(const nanobind::dict& settings, const Options& options, const char* stage);

// The files among the settings.
std::vector<std::string> sources_of(const nanobind::dict& settings);

// JSON text in ASCII; names need not be UTF-8.
std::string text_of(const nlohmann::ordered_json& json);

void bind_settings(nanobind::module_& module);

}  // namespace octet::python

// Settings as Python gives them, a dict of what is not left to its default, and what comes back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tools/python/torch/graph.h"
#include "tools/cli/quantize/flow.h"

namespace octet::python {

// What Python keeps of a quantized program.
struct Outcome {
  GraphHandle graph;
  std::string report, page;        // JSON; "": none
  std::vector<std::string> lines;  // of the figures, for people
  std::string io;                  // JSON; "" without quantized inputs and outputs
};

// A setting that is given; None counts as left out. Throws Error for another type.
template <typename Value>
void take(const nanobind::dict& settings, const char* name, Value& value) {
  if (!settings.contains(name)) return;
  const nanobind::object given = settings[name];
  if (!given.is_none() && !nanobind::try_cast(given, value))
    throw Error(
        "quantize", name,
        "got " + nanobind::cast<std::string>(nanobind::repr(given)) + ", which has another type");
}

template <typename Value>
void take(const nanobind::dict& settings, const char* name, std::optional<Value>& value) {
  if (!settings.contains(name) || nanobind::object(settings[name]).is_none()) return;
  take(settings, name, value.emplace());
}

QuantizeFlow flow_of(const nanobind::dict& settings);

// The files among the settings.
std::vector<std::string> sources_of(const nanobind::dict& settings);

// Of names that are no UTF-8, too.
std::string text_of(const nlohmann::ordered_json& json);

}  // namespace octet::python

// Observers' states as JSON, so that calibration can be done apart from conversion. All floats are exact.
#pragma once

#include <filesystem>
#include <string>

#include "annotate/prepare.h"

namespace octet {

// {"format": 1, "groups": [{"group", "observer", "dtype", "sites": [names of the observed values], "min", "max", "histogram"}]}
std::string observer_state_to_json(const ObservedGraph& observed);

// Puts states back. The graph must have been prepared in the same way. Throws Error("state", ...) when the text is no such JSON or its
// groups do not fit.
void observer_state_from_json(ObservedGraph& observed, const std::string& text, const std::string& source);

void save_observer_state(const ObservedGraph& observed, const std::filesystem::path& path);  // atomic
void load_observer_state(ObservedGraph& observed, const std::filesystem::path& path);

}  // namespace octet

// Writes what tuning found as JSON, for a page.
#pragma once

#include <nlohmann/json.hpp>

#include "core/graph/graph.h"
#include "tools/cli/tune/tuner.h"

namespace octet {

// The report of `octet compare` for the result, with all trials and the Pareto front.
nlohmann::ordered_json tune_report(const Graph& original, const Tuned& tuned,
                                   const TuneOptions& options);

}  // namespace octet

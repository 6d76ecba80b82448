// What fell short of what was asked for: ops that stayed float though they were to be quantized
// (said, or with --strict an error), and outputs far from float's.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/report.h"
#include "tools/cli/quantize/quality.h"

namespace octet {

// The first few of them and a count, then the notes; --report has them all.
void log_refusals(const Report& report);
// What is to be warned of: less than kLeastShare quantized, with the three largest reasons; a
// median ratio below kLeastDecibels, with what to do. quality: as quality_json gave it.
std::vector<std::string> find_shortcomings(const Weight& weight,
                                           const nlohmann::ordered_json& quality);
// Throws Error("quantize", ...) when less than kLeastShare is quantized, or when any op stayed
// float. What the mode leaves float (kModeStage) counts in neither.
void check_strict(const Report& report, const Weight& weight, const std::string& model);

}  // namespace octet

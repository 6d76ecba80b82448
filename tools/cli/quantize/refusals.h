// Reports shortcomings of a quantization: ops that stayed float though they should be quantized (a
// warning, or an error with --strict), and outputs far from those of the float program.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/report.h"
#include "tools/cli/quantize/quality.h"

namespace octet {

// Prints the first few refusals, their number, and the notes; --report has all.
void log_refusals(const Report& report);
// Warnings: less than kLeastShare is quantized, with the three main reasons; the median SQNR is
// below kLeastDecibels, with what to do. quality: of quality_json.
std::vector<std::string> find_shortcomings(const Weight& weight,
                                           const nlohmann::ordered_json& quality);
// Throws Error("quantize", ...) if less than kLeastShare is quantized or any op stayed float. Ops
// that the mode leaves float (kModeStage) do not count.
void check_strict(const Report& report, const Weight& weight, const std::string& model);

}  // namespace octet

// What stayed float though it was to be quantized: said, or with --strict an error.
#pragma once

#include <string>

#include "core/base/report.h"
#include "tools/quantize/quality.h"

namespace octet {

// The first few of them and a count, then the notes; --report has them all.
void log_refusals(const Report& report);
// Throws Error("quantize", ...) when less than kLeastShare is quantized, or when any op stayed
// float. What the mode leaves float (kModeStage) counts in neither.
void check_strict(const Report& report, const Weight& weight, const std::string& model);

}  // namespace octet

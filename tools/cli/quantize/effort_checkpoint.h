// What the passes of --effort high have done so far, on disk: a run that was broken off goes on
// from there and ends with the same bits.
#pragma once

#include <string>

#include "annotate/accuracy/accuracy_passes.h"
#include "tools/cli/quantize/effort_options.h"

namespace octet {

// What the outcome depends on: checksums of model, data and settings, and the options.
std::string describe_run(const QuantizeFlow& flow, const EffortData& data,
                         const EffortOptions& options);

// run: of describe_run(). Written whole or not at all. Throws Error("outputs", file, ...).
void save_effort(const std::string& file, const std::string& run, const EffortJournal& journal);
// An empty journal when there is no such file. Throws Error("quantize", file, ...) when it is
// damaged, no checkpoint, or of another run.
EffortJournal load_effort(const std::string& file, const std::string& run);

}  // namespace octet

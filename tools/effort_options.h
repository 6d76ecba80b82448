// --effort and --passes of `octet quantize`: calibration time spent on accuracy.
#pragma once

#include <string>
#include <vector>

#include "annotate/effort.h"

namespace CLI {
class App;
}

namespace octet {

struct EffortOptions {
  std::string effort = "default";
  std::vector<std::string> passes;  // of one's own choice, instead of a bundle

  bool is_asked_for() const { return effort == "high" || !passes.empty(); }
};

void add_effort_options(CLI::App& command, EffortOptions& options);

// Throws CLI::ValidationError (a usage error) when passes are asked for and there is no data for them to read, or --compat says how to calibrate.
void check_effort_options(const EffortOptions& options, bool has_calibration, bool is_compat);

// Calibrates with the passes from the first batches of a DATA.pt, with a progress bar for each on a terminal; a line on stderr says how long each took.
void calibrate_with_effort(ObservedGraph& observed, const std::string& data, size_t batches, const EffortOptions& options, Report& report);

}  // namespace octet

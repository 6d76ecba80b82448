// --effort and --passes of `octet quantize`: calibration time spent on accuracy.
#pragma once

#include <string>
#include <vector>

#include "annotate/accuracy/accuracy_passes.h"

namespace CLI {
class App;
}

namespace octet {

struct EffortOptions {
  std::string effort = "default";   // "none", "default" or "high"
  std::string checkpoint;           // a file, or empty
  std::vector<std::string> passes;  // of one's own choice, instead of a bundle

  bool is_asked_for() const { return effort == "high" || !passes.empty(); }
};

void add_effort_options(CLI::App& command, EffortOptions& options);

// Throws CLI::ValidationError (a usage error) when passes are asked for and there is no data for
// them to read, or --compat says how to calibrate.
void check_effort_options(const EffortOptions& options, bool has_calibration, bool is_compat);

// The passes that are asked for, in no order.
std::vector<AccuracyPass> passes_of(const EffortOptions& options);

// The first batches of a DATA.pt.
struct EffortData {
  std::string file;
  size_t batches = 0;
};

}  // namespace octet

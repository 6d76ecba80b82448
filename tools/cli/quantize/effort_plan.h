// Which accuracy passes a run has, and which part of the program each may change: what the
// command's options, the default and the rows of --config say together.
#pragma once

#include <string>
#include <vector>

#include "annotate/accuracy/accuracy_passes.h"
#include "annotate/observed/observed_graph.h"
#include "tools/cli/quantize/effort_options.h"
#include "tools/cli/quantize/flow.h"

namespace octet {

struct EffortPlan {
  std::vector<AccuracyPass> passes = {};  // in no order; none: calibration alone
  PassFilter applies = {};                // empty: each pass all of the program
  std::vector<std::string> notes = {};    // for the report: rows that fit nothing

  bool has_passes() const { return !passes.empty(); }
};

// batches: how many the run calibrates with. Throws Error as read_pass_rows and read_effort_rows
// do, and Error("quantize", "FILE: /effort", ...) where there is nothing for its rows to work on.
EffortPlan plan_effort(const ObservedGraph& observed, const EffortOptions& options,
                       const QuantizeFlow& flow, size_t batches);

// Calibrates with the passes of the plan; a line on stderr says how long each took. With a
// checkpoint it goes on from where that stands. flow: how observed was made. peers: as
// calibrate_with_passes; the first alone writes the checkpoint. memory: likewise.
void calibrate_with_effort(ObservedGraph& observed, const EffortData& data, const EffortPlan& plan,
                           const EffortOptions& options, const QuantizeFlow& flow,
                           Progress& progress, Report& report, Peers* peers = nullptr,
                           EffortMemory* memory = nullptr);

}  // namespace octet

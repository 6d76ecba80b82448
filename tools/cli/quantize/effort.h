// Implements --effort, --passes and --checkpoint of `octet quantize`: decides which accuracy passes
// run and what part of the program each may change, and runs them. An interrupted run resumes from
// its checkpoint and gives the same bits.
#pragma once

#include <string>
#include <vector>

#include "annotate/accuracy/accuracy_passes.h"
#include "annotate/observed/observed_graph.h"
#include "tools/cli/common/options.h"
#include "tools/cli/quantize/flow.h"

namespace octet {

struct EffortOptions {
  std::string effort = "default";   // "none", "default" or "high"
  std::string checkpoint;           // a file, or empty
  std::vector<std::string> passes;  // run these instead of those of `effort`

  bool is_asked_for() const { return effort == "high" || !passes.empty(); }
};

Options options_of(EffortOptions& options);

// Throws CLI::ValidationError (a usage error) if passes are requested without data, or with
// --compat, which fixes ranges and weights.
void check_effort_options(const EffortOptions& options, bool has_calibration, bool is_compat);

struct EffortPlan {
  std::vector<AccuracyPass> passes = {};  // in any order; none: only calibration
  PassFilter applies = {};                // empty: each pass may change the whole program
  std::vector<std::string> notes = {};    // for the report: rows that match nothing

  bool has_passes() const { return !passes.empty(); }
};

// Combines the command's options, the default and the rows of --config. batches: the number of
// calibration batches. Throws what read_pass_rows and read_effort_rows throw, and Error("quantize",
// "FILE: /effort", ...) if no pass remains that its rows could change.
EffortPlan plan_effort(const ObservedGraph& observed, const EffortOptions& options,
                       const QuantizeFlow& flow, size_t batches);

// Describes everything that the result of a run depends on: the model, the data, the settings and
// the passes. A checkpoint with another description is refused.
std::string describe_run(const QuantizeFlow& flow, const SampleData& data,
                         const EffortOptions& options);

// Calibrates with the passes of the plan and logs how long each took. Resumes from the checkpoint
// if there is one; throws Error("quantize", checkpoint, ...) if it is damaged or from another run.
// flow: how `observed` was prepared. peers (the other processes) and memory: see
// calibrate_with_passes; only process 0 writes the checkpoint.
void calibrate_with_effort(ObservedGraph& observed, const SampleData& data, const EffortPlan& plan,
                           const EffortOptions& options, const QuantizeFlow& flow,
                           Progress& progress, Report& report, Peers* peers = nullptr,
                           EffortMemory* memory = nullptr);

}  // namespace octet

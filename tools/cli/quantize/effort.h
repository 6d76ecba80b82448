// Spends calibration time on accuracy: --effort, --passes and --checkpoint of `octet quantize`,
// which accuracy passes a run has, which part of the program each may change, and the run itself.
// An interrupted run resumes from its checkpoint and gives the same bits.
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
  std::vector<std::string> passes;  // these instead of those of an effort

  bool is_asked_for() const { return effort == "high" || !passes.empty(); }
};

Options options_of(EffortOptions& options);

// Throws CLI::ValidationError (a usage error) when passes are asked for without data for them to
// read, or with --compat, which fixes ranges and weights.
void check_effort_options(const EffortOptions& options, bool has_calibration, bool is_compat);

struct EffortPlan {
  std::vector<AccuracyPass> passes = {};  // in no order; none: calibration alone
  PassFilter applies = {};                // empty: each pass may change the whole program
  std::vector<std::string> notes = {};    // for the report: rows that match nothing

  bool has_passes() const { return !passes.empty(); }
};

// Combines the command's options, the default and the rows of --config. batches: how many the run
// calibrates with. Throws Error as read_pass_rows and read_effort_rows do, and Error("quantize",
// "FILE: /effort", ...) when nothing is left for its rows to change.
EffortPlan plan_effort(const ObservedGraph& observed, const EffortOptions& options,
                       const QuantizeFlow& flow, size_t batches);

// What the outcome of a run depends on: the model, the data, the settings and the passes. A
// checkpoint of another run is refused.
std::string describe_run(const QuantizeFlow& flow, const SampleData& data,
                         const EffortOptions& options);

// Calibrates with the passes of the plan and logs how long each took. With a checkpoint it resumes
// what the file holds; throws Error("quantize", checkpoint, ...) when the file is damaged or of
// another run. flow: how `observed` was made. peers, memory: as of calibrate_with_passes; process 0
// alone writes the checkpoint.
void calibrate_with_effort(ObservedGraph& observed, const SampleData& data, const EffortPlan& plan,
                           const EffortOptions& options, const QuantizeFlow& flow,
                           Progress& progress, Report& report, Peers* peers = nullptr,
                           EffortMemory* memory = nullptr);

}  // namespace octet

// Runs calibration together with the passes that trade calibration time for accuracy: which passes
// exist, the order in which they run, and which of them `--effort high` selects. None of them
// changes which ops are int8.
#pragma once

#include <algorithm>

#include "annotate/accuracy/snapshot.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"
#include "core/base/report.h"

namespace octet {

struct EffortMemory;  // held_out_check.h

// Declared in the order in which they run. Calibration runs between kEqualize and kSmooth.
enum class AccuracyPass {
  kEqualize,     // equalize_layers(), channel_space.h
  kSmooth,       // smooth.h
  kRanges,       // tune_ranges.h
  kCorrectBias,  // bias_correction.h
  kRound,        // round_second_order(), weight_rounding.h; also chooses new biases
  kAdaptive,     // round_adaptive(); replaces the result of kRound where it is better
};
// "equalize", "smooth", "ranges", "correct-bias", "round", "adaptive"
std::string_view name_of(AccuracyPass pass);
std::vector<std::string> accuracy_pass_names();
// Throws Error("quantize", subject, ...) for an unknown or repeated name, and lists the known ones.
std::vector<AccuracyPass> parse_accuracy_passes(const std::vector<std::string>& names,
                                                const std::string& subject);

// Whether a pass may change the layer, op or range of a node. Empty: every pass may change all of
// them.
using PassFilter = std::function<bool(AccuracyPass pass, const Node& node)>;

// The passes of `--effort high`; ACCURACY.md says what each adds.
std::vector<AccuracyPass> high_effort_passes();

// Opens the calibration data at its first batch. Each pass reads the data again, batch by batch.
using DataOpener = std::function<BatchSource()>;
// stage: "calibrate" or the name of a pass. done, total: batches, ranges or layers. total is 0 when
// the stage begins.
using EffortProgress = std::function<void(std::string_view stage, size_t done, size_t total)>;

struct EffortStage {
  std::string name;
  double seconds = 0;
};

// A stage that calibrate_with_passes() will run, with its approximate cost in runs of the float
// program over one batch. The passes after kRanges are listed twice: they run before and after the
// ranges change, and the second run is skipped when no range changed.
struct PlannedStage {
  std::string_view name;
  double cost = 0;
};
inline constexpr std::string_view kCalibrateStage = "calibrate";  // the only one without passes
std::vector<PlannedStage> planned_stages(const std::vector<AccuracyPass>& passes, size_t batches);

// Records what the passes over ranges, weights and biases have done, so that an interrupted run can
// resume. The short stages before them (equalize, calibrate, smooth) are not recorded: they run
// again.
struct EffortJournal {
  // in the order in which the passes ran; a name may occur twice
  std::vector<PassOutcome> outcomes;
  std::function<void(const EffortJournal& journal)> added = {};  // after each pass
};

// Calibrates and runs `passes` before and after calibration; kSmooth calibrates a second time.
//
// A quarter of the batches is held out from all passes. A pass that does not improve the program's
// outputs on them by at least 0.3 dB is undone, with a note in the report. kRanges is judged
// together with the passes after it, which run once without and once with the new ranges. Data of a
// single batch is used for both purposes.
//
// REQUIRES: `observed` is prepared and not calibrated. batches: the number of batches of the data.
// Returns the stages that ran, with their time. Throws what the passes and calibrate() throw.
//
// journal: passes whose outcomes it holds are applied from there instead of run; with the same
// graph, data and passes the result has the same bits. Outcomes of the other passes are appended.
//
// peers: processes that make the same call at the same time, each with a part of the batches; null:
// there are none. All end with the same program, which differs from that of a single process only
// by the order of sums and by what merging observers costs (Observer::merge). Throws
// Error("quantize", "data", ...) when the passes have fewer batches than there are processes.
//
// memory: results of earlier calls with the same data, to save time; the result has the same bits
// as without.
std::vector<EffortStage> calibrate_with_passes(
    ObservedGraph& observed, const DataOpener& open, size_t batches,
    const std::vector<AccuracyPass>& passes, Report& report, const EffortProgress& progress = {},
    EffortJournal* journal = nullptr, const PassFilter& applies = {}, Peers* peers = nullptr,
    EffortMemory* memory = nullptr);

// Groups passes by when they run: equalize, calibration, smooth, ranges, after.
struct PassOrder {
  explicit PassOrder(std::vector<AccuracyPass> passes) {
    std::ranges::sort(passes);
    for (const AccuracyPass pass : passes) {
      if (pass == AccuracyPass::kEqualize)
        equalize.push_back(pass);
      else if (pass == AccuracyPass::kSmooth)
        smooth.push_back(pass);
      else if (pass == AccuracyPass::kRanges)
        ranges.push_back(pass);
      else
        after.push_back(pass);
    }
  }
  std::vector<AccuracyPass> equalize, smooth, ranges, after;
};

}  // namespace octet

// The passes that spend calibration time on accuracy, their order, and which of them `--effort
// high` is. None changes which ops are int8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "annotate/accuracy/snapshot.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"
#include "core/base/report.h"

namespace octet {

struct EffortMemory;  // effort_memory.h

// In the order in which they run; calibration stands between kEqualize and kSmooth.
enum class AccuracyPass {
  kEqualize,     // equalize.h
  kSmooth,       // smooth.h
  kRanges,       // tune_ranges.h
  kCorrectBias,  // bias_correction.h
  kRound,        // gptq.h; it chooses biases anew
  kAdaptive,     // adaround.h; likewise, and instead of kRound's work where it is better
};
// "equalize", "smooth", "ranges", "correct-bias", "round", "adaptive"
std::string_view name_of(AccuracyPass pass);
std::vector<std::string> accuracy_pass_names();
// Throws Error("quantize", subject, ...) for unknown names and for names that stand twice; naming
// the known ones.
std::vector<AccuracyPass> parse_accuracy_passes(const std::vector<std::string>& names,
                                                const std::string& subject);

// Whether a pass may change the layer, op or range of a node; empty: each pass all of them.
using PassFilter = std::function<bool(AccuracyPass pass, const Node& node)>;

// What `--effort high` runs: ACCURACY.md says what each adds.
std::vector<AccuracyPass> high_effort_passes();

// Opens the calibration data at its first batch: each pass reads it anew, batch by batch.
using DataOpener = std::function<BatchSource()>;
// stage: "calibrate" or the name of a pass; done of total batches, ranges or layers. total 0: the
// stage begins.
using EffortProgress = std::function<void(std::string_view stage, size_t done, size_t total)>;

struct EffortStage {
  std::string name;
  double seconds = 0;
};

// The stages in the order in which they will run, with about what each costs, in runs of the float
// program over a batch. Passes behind kRanges stand twice; the second time they are left out when
// no range changes.
struct PlannedStage {
  std::string_view name;
  double cost = 0;
};
inline constexpr std::string_view kCalibrateStage = "calibrate";  // the only one without passes
std::vector<PlannedStage> planned_stages(const std::vector<AccuracyPass>& passes, size_t batches);

// What the passes over ranges, weights and biases have done so far, for a run that goes on where
// another one was broken off. The short stages in front of them (equalize, calibrate, smooth) are
// not in it: they run again.
struct EffortJournal {
  // of the passes in the order in which they ran, a name may stand twice
  std::vector<PassOutcome> outcomes;
  std::function<void(const EffortJournal& journal)> added = {};  // after each pass
};

// Calibrates, with the passes before and behind; kSmooth calibrates anew. A quarter of the batches
// is held out from all passes: where they make the program's outputs on these not better by 0.3
// dB, their work is undone, with a note. kRanges is judged by what the passes behind it make of it:
// they run without it and with it. With a single batch that serves for all. REQUIRES: observed is
// prepared and not calibrated. batches: how many the data has. Throws what the passes and
// calibrate() throw. Returns the stages that ran with their time. Passes whose outcomes stand in
// the journal are not run but done again: given the same graph, data and passes the result has the
// same bits. What the others do is added. peers: processes that do the same with the same data at
// the same time, each on a part of the batches; all end with the same program, that of one process
// but for the order of sums and what merging observers costs (Observer::merge). Throws
// Error("quantize", "data", ...) when the passes have fewer batches than there are processes. null:
// none. memory: of earlier calls with the same data; the result has the same bits as without.
std::vector<EffortStage> calibrate_with_passes(
    ObservedGraph& observed, const DataOpener& open, size_t batches,
    const std::vector<AccuracyPass>& passes, Report& report, const EffortProgress& progress = {},
    EffortJournal* journal = nullptr, const PassFilter& applies = {}, Peers* peers = nullptr,
    EffortMemory* memory = nullptr);

// In which order the accuracy passes run.

// Which passes run when; calibration stands behind `equalize`.
struct PassOrder {
  explicit PassOrder(std::vector<AccuracyPass> passes) {
    std::sort(passes.begin(), passes.end());
    for (const AccuracyPass pass : passes) {
      if (pass == AccuracyPass::kEqualize)
        equalize.push_back(pass);
      else if (pass == AccuracyPass::kSmooth)
        smooth.push_back(pass);
      else if (pass == AccuracyPass::kRanges)
        ranges.push_back(pass);
      else
        behind.push_back(pass);
    }
  }
  std::vector<AccuracyPass> equalize, smooth, ranges, behind;
};

}  // namespace octet

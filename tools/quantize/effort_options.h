// --effort and --passes of `octet quantize`: calibration time spent on accuracy.
#pragma once

#include <string>
#include <vector>

#include "annotate/accuracy/accuracy_passes.h"

namespace CLI {
class App;
}

namespace octet {

class Progress;
struct QuantizeFlow;

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

// Whether --effort default smooths (kSmooth) what layer norms hand to quantized linears and
// convolutions, and nothing else: the program has such, calibration runs here on 4 batches or more,
// a quarter of which is held out, and neither --compat nor --recorded fixes what it gives.
bool smooths_by_default(const ObservedGraph& observed, const EffortOptions& options,
                        const QuantizeFlow& flow, size_t batches);

// The passes that are asked for, in no order.
std::vector<AccuracyPass> passes_of(const EffortOptions& options);

// The first batches of a DATA.pt.
struct EffortData {
  std::string file;
  size_t batches = 0;
};

// Calibrates with the passes, without any asked for with the smoothing of --effort default; a line
// on stderr says how long each took. With a checkpoint it goes on from where that stands. flow: how
// observed was made. peers: as calibrate_with_passes; the first alone writes the checkpoint.
void calibrate_with_effort(ObservedGraph& observed, const EffortData& data,
                           const EffortOptions& options, const QuantizeFlow& flow,
                           Progress& progress, Report& report, Peers* peers = nullptr);

}  // namespace octet

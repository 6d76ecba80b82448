// Mixed precision, as `octet tune` searches it: quantizes, estimates how much each op contributes
// to the error of the outputs, and tries changes of single ops until the goal is met.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "annotate/observed/peers.h"
#include "core/graph/graph.h"
#include "tools/cli/common/sample_data.h"
#include "tools/cli/compare/metric_option.h"
#include "tools/cli/quantize/flow.h"
#include "tools/cli/quantize/quality.h"
#include "tools/cli/tune/search.h"

namespace octet {

// options_of() has the meaning of the members.
struct TuneOptions {
  QuantizeFlow flow;
  DataOptions data;    // labels: with most_drop
  std::string metric;  // with least_metric: as read_metric takes it
  std::optional<double> least_sqnr_db, most_drop, least_metric;  // one of them
  std::optional<double> most_latency;                            // milliseconds; needs a backend
  std::string backend;  // empty: cost is the share in float
  int threads = 1;
  size_t most_trials = 25;
  std::string effort = "default";
  std::string checkpoint;                   // a file, or empty
  std::string output, save_config, report;  // of the command, which writes files

  // whether accuracy passes for single ops are tried: no cost in the program, but minutes of tuning
  bool has_effort() const { return effort == "high"; }
};

Options options_of(TuneOptions& options);

// How much the estimate by gradients is to be trusted.
struct Estimate {
  double measured = 0, estimated = 0;  // relative squared errors of the outputs
  bool is_trusted() const { return estimated > measured / 4 && estimated < 4 * measured; }
};

struct Tuned {
  TuneOutcome outcome;
  Graph quantized;                // of the best trial
  nlohmann::ordered_json config;  // the base settings with those found
  Estimate estimate;
  std::string batches;  // what the trials were evaluated on
  std::string metric;   // its name, or ""
};

// Throws Error as `octet quantize` does, and Error("tune", ...) for goals that do not fit.
// peers: processes that tune the same at the same time, each on a part of the batches; all get the
// same result, and the first alone writes the checkpoint and says what is done; null: none.
Tuned tune(const Graph& original, const TuneOptions& options, Peers* peers = nullptr);

// "31.2 dB, top5 0.93, 4.0 % of the multiply-accumulates in float, 3.120 ms".
std::string figures_of(const Trial& trial, const std::string& metric);

}  // namespace octet

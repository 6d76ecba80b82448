// Finds mixed precision as `octet tune` does: quantizes, estimates how much each op contributes to
// the error of the outputs, and tries changes of single ops until the goal is met. If the goal is a
// size, it chooses the bits of weights op by op instead, so that the error is least at that size.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "annotate/observed/peers.h"
#include "core/graph/graph.h"
#include "tools/cli/common/options.h"
#include "tools/cli/common/sample_data.h"
#include "tools/cli/quantize/flow.h"
#include "tools/cli/tune/search.h"

namespace octet {

// The options of `octet tune`, and which of them go together.

// options_of() describes the members.
struct TuneOptions {
  QuantizeFlow flow;
  DataOptions data;    // labels: with most_drop
  std::string metric;  // with least_metric: text for read_metric
  std::optional<double> least_sqnr_db, most_drop, least_metric, most_size;  // one of them
  std::optional<double> most_latency;  // milliseconds; needs a backend
  std::string backend;                 // empty: the cost is the float share
  int threads = 1;
  size_t most_trials = 25;
  std::string effort = "default";
  std::string checkpoint;                   // a file, or empty
  std::string output, save_config, report;  // used by the command
  // In place of the metric: a value of a program, which min_metric bounds. Larger is better.
  std::function<double(const Graph& program)> validate = {};

  // whether accuracy passes for single ops are tried, which cost minutes of tuning but no run time
  bool has_effort() const { return effort == "high"; }
};

// All options, and those besides the flow's.
Options options_of(TuneOptions& options);
Options tune_options(TuneOptions& options);

// Throws Error("tune", ...) if there is not one goal, or if options contradict each other.
void check_goals(const TuneOptions& options);

// Compares the error that gradients estimate with the measured one.
struct Estimate {
  double measured = 0, estimated = 0;  // relative squared errors of the outputs
  bool is_trusted() const { return estimated > measured / 4 && estimated < 4 * measured; }
};

struct Tuned {
  TuneOutcome outcome;
  Graph quantized;                // the best trial
  nlohmann::ordered_json config;  // the base settings with the changes that were found
  Estimate estimate;
  std::string batches;  // what the trials were evaluated on
  std::string metric;   // its name, or ""
};

// Throws the Errors of `octet quantize`, and Error("tune", ...) for goals that conflict. peers:
// other processes that tune at the same time, each on a part of the batches; all get the same
// result, and only the first writes the checkpoint and prints; null: none.
Tuned tune(const Graph& original, const TuneOptions& options, Peers* peers = nullptr);

// The report of `octet compare` for the result, with all trials and the Pareto front.
nlohmann::ordered_json tune_report(const Graph& original, const Tuned& tuned,
                                   const TuneOptions& options);

}  // namespace octet

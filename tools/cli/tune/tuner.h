// Finds mixed precision as `octet tune` does: quantizes, estimates how much each op contributes to
// the error of the outputs, and tries changes of single ops until the goal is met.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "annotate/observed/peers.h"
#include "core/graph/graph.h"
#include "tools/cli/tune/search.h"
#include "tools/cli/tune/tune_options.h"

namespace octet {

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

// "31.2 dB, top5 0.93, 4.0 % of the multiply-accumulates in float, 3.120 ms".
std::string figures_of(const Trial& trial, const std::string& metric);

// The report of `octet compare` for the result, with all trials and the Pareto front.
nlohmann::ordered_json tune_report(const Graph& original, const Tuned& tuned,
                                   const TuneOptions& options);

}  // namespace octet

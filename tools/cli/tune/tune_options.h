// The options of `octet tune`, and which of them go together.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/graph/graph.h"
#include "tools/cli/common/options.h"
#include "tools/cli/common/sample_data.h"
#include "tools/cli/quantize/flow.h"

namespace octet {

// options_of() describes the members.
struct TuneOptions {
  QuantizeFlow flow;
  DataOptions data;    // labels: with most_drop
  std::string metric;  // with least_metric: text for read_metric
  std::optional<double> least_sqnr_db, most_drop, least_metric;  // one of them
  std::optional<double> most_latency;                            // milliseconds; needs a backend
  std::string backend;  // empty: the cost is the float share
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

Options options_of(TuneOptions& options);

// Throws Error("tune", ...) if there is not one goal, or if options contradict each other.
void check_goals(const TuneOptions& options);

}  // namespace octet

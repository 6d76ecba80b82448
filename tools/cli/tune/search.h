// The search of `octet tune`: which ops stay float, or get other observers, so that the program's
// error falls below a limit with as little float as possible. It knows no graph: tests give it one.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace octet {

// A change that can be made by itself.
struct TuneCandidate {
  std::string label;              // "conv2d_7 in float"
  nlohmann::ordered_json config;  // rows of --config
  double gain = 0;                // part of the error that is expected to go, in [0, 1]
  double cost = 0;  // part of the multiply-accumulates, of the bits, or of the time, that it adds
  std::string choice = {};  // "in float"
  size_t strength = 0;      // where two say something of one op, the stronger holds
};

// One whole evaluation.
struct Trial {
  std::string label = {};
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  double error = 0;                        // what has to fall: OutputGoal::error_of
  double float_share = 0;                  // of the multiply-accumulates
  std::optional<double> weight_bits = {};  // mean; where activations are not quantized ahead
  std::optional<double> latency_ms = {};
  double sqnr_db = 0;
  std::optional<double> accuracy = {}, metric = {};
  // nothing was left to quantize: it meets any goal, and nobody asked for it
  bool is_float = false;

  // What it takes, to be compared among trials of one run: time, bits, or float.
  double price() const { return latency_ms.value_or(weight_bits.value_or(float_share)); }
};

struct TuneGoal {
  double most_error = 0;                    // of Trial::error
  std::optional<double> most_latency = {};  // milliseconds
  bool is_met_by(const Trial& trial) const {
    return trial.error <= most_error &&
           (!most_latency || (trial.latency_ms && *trial.latency_ms <= *most_latency));
  }
};

struct TuneOutcome {
  std::vector<Trial> trials;  // in the order in which they were made; none twice
  // of those that meet the goal the fastest where all times are known, else the one with fewest
  // bits, or least float; the nearest where none meets it
  size_t best = 0;
  bool is_reached = false;
};

// Makes a trial of a configuration; may throw, which ends the search.
using MakeTrial =
    std::function<Trial(const nlohmann::ordered_json& config, const std::string& label)>;

// bases: settings for the whole program that are tried first, the first of them the default; the
// search goes on from the best. Candidates are taken by gain for cost, as many as the estimate asks
// for, then by halves of what is left; when the goal is met, those that it does not need are given
// back. Rows of modules and calls stand on top of the configuration's global one. At most
// `most_trials` evaluations (>= 1).
TuneOutcome search(const std::vector<Trial>& bases, const std::vector<TuneCandidate>& candidates,
                   const TuneGoal& goal, size_t most_trials, const MakeTrial& make_trial);

// `more` on top of `config`: rows are joined, a setting of both is that of `more`.
nlohmann::ordered_json merged(nlohmann::ordered_json config, const nlohmann::ordered_json& more);

// Positions of the trials that no other beats in both error and cost (latency where it was
// measured, else bits or float share), by falling error; none that is_float.
std::vector<size_t> pareto_front(const std::vector<Trial>& trials);

}  // namespace octet

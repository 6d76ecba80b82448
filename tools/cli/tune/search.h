// Searches which ops stay float or get other observers, so that the error of the program falls
// below a limit with as little float as possible. It does not use graphs, so that tests can run it
// on numbers.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace octet {

// The cost of a product of int16 activations, on a scale where int8 costs 0 and float 1, from the
// latency of EfficientNet-Lite0 on oneDNN with AVX512-VNNI.
constexpr double kInt16Cost = 0.9;

// A change that can be applied by itself.
struct TuneCandidate {
  std::string label;              // "conv2d_7 in float"
  nlohmann::ordered_json config;  // rows of --config
  double gain = 0;                // expected part of the error that is removed, in [0, 1]
  double cost = 0;                // added part of the multiply-accumulates, bits or time
  std::string choice = {};        // "in float"
  size_t strength = 0;            // the stronger of two changes of one op wins
};

// One complete evaluation.
struct Trial {
  std::string label = {};
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  double error = 0;                        // OutputGoal::error_of, which must fall
  double float_share = 0;                  // share of the multiply-accumulates
  double int16_share = 0;                  // as float_share, of those with int16 activations
  std::optional<double> weight_bits = {};  // mean; unless activations are static
  std::optional<double> latency_ms = {};
  double sqnr_db = 0;
  std::optional<double> accuracy = {}, metric = {};
  // with a goal of a size: bytes of the .octet file, and the KL divergence of a language model
  std::optional<double> bytes = {}, divergence = {};
  // all ops are float: such a trial meets any goal, but is not what the user wants
  bool is_float = false;

  // The cost, comparable among trials of one run: bytes, time, bits, or float share.
  double price() const {
    const double share = float_share + kInt16Cost * int16_share;
    return bytes.value_or(latency_ms.value_or(weight_bits.value_or(share)));
  }
};

struct TuneGoal {
  double most_error = 0;                    // limit of Trial::error
  std::optional<double> most_latency = {};  // milliseconds
  bool is_met_by(const Trial& trial) const {
    return trial.error <= most_error &&
           (!most_latency || (trial.latency_ms && *trial.latency_ms <= *most_latency));
  }
};

struct TuneOutcome {
  std::vector<Trial> trials;  // in order, without repeats
  // the fastest trial that meets the goal if all times are known, else the one with the fewest bits
  // or least float; the nearest trial if none meets it; with a goal of a size, the one with the
  // least error
  size_t best = 0;
  bool is_reached = false;
};

// Evaluates a configuration; an exception ends the search.
using MakeTrial =
    std::function<Trial(const nlohmann::ordered_json& config, const std::string& label)>;

// bases: settings for the whole program that are tried first, the default before the others; the
// search continues from the best. It adds candidates by gain per cost, as many as the estimate
// requires, then halves of the remainder; once the goal is met, it removes those that are not
// needed. Rows of modules and calls override the configuration's global row. Makes at most
// `most_trials` (>= 1) evaluations.
TuneOutcome search(const std::vector<Trial>& bases, const std::vector<TuneCandidate>& candidates,
                   const TuneGoal& goal, size_t most_trials, const MakeTrial& make_trial);

// The size of an op's weights in one width, and the error that they cause.
struct WidthOption {
  double bytes = 0, loss = 0;
};

// Chooses an option for each op, so that together they take at most `most_bytes`: starts with the
// smallest of each op, then takes the step that saves most loss per byte among those that fit,
// until none does. ops: the options of each op, by rising bytes. Returns their positions. REQUIRES:
// the smallest options fit.
std::vector<size_t> choose_widths(const std::vector<std::vector<WidthOption>>& ops,
                                  double most_bytes);

// Merges the rows of both; settings of `more` win.
nlohmann::ordered_json merged(nlohmann::ordered_json config, const nlohmann::ordered_json& more);

// Positions of the trials that no other trial beats in both error and cost (Trial::price():
// bytes, else latency, bits or float share), by falling error; without is_float.
std::vector<size_t> pareto_front(const std::vector<Trial>& trials);

}  // namespace octet

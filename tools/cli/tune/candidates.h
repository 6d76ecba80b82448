// Lists the changes that `octet tune` searches: the choices for an op, from the mildest to float,
// with the expected gain and the cost of each.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/ivalue.h>
#include <nlohmann/json.hpp>

#include "annotate/compare/compare.h"
#include "annotate/compare/diagnosis.h"
#include "core/graph/graph.h"
#include "tools/cli/compare/suggestion.h"
#include "tools/cli/tune/base_settings.h"
#include "tools/cli/tune/search.h"

namespace octet {

class Peers;

class OpCosts {
 public:
  // Lowers the program and times each kernel on one batch. Throws what lower() and Session::run
  // throw.
  OpCosts(const Graph& quantized, std::string backend, int threads, std::vector<c10::IValue> batch);
  // Times another program of the model; `way` names how its ops are computed.
  void add(const std::string& way, const Graph& graph);

  // The additional time of the kernels of these ops when computed that way, as a part of the
  // quantized program's time; 0 if they are not slower. A kernel of several ops counts whole if one
  // of them is given. Excludes conversions at the program's inputs and outputs.
  double share_of(const std::vector<const Node*>& ops, const std::string& way) const;

 private:
  struct Times {
    std::vector<double> kernels;                                      // seconds
    std::unordered_map<std::string, std::vector<size_t>> kernels_of;  // by op
    double all = 0;
  };
  Times measure(const Graph& graph) const;
  static double seconds_of(const Times& times, const std::vector<const Node*>& ops);

  std::string backend_;
  int threads_;
  std::vector<c10::IValue> batch_;
  Times as_it_is_;
  std::unordered_map<std::string, Times> ways_;
};

// Facts about an op of the program that tuning starts from.
struct OpFacts {
  Cause cause = Cause::kNone;  // cause of the error that the op adds
  bool is_static = true;       // --mode static
  bool has_weights = false;    // that are quantized
  // from BaseSettings
  bool has_weight_options = false, has_per_channel = false, has_int16 = false, has_effort = false;
  nlohmann::ordered_json options;  // from the op's row
  int weight_bits = 32;            // that it has; a table may have more than its row says
  // share of the op's error from before its output is rounded: weights, and dynamically rounded
  // inputs
  double before_share = 0;
};

struct Choice {
  std::string name;  // "in float", for "%conv2d in float"
  bool (*applies)(const OpFacts& op) = [](const OpFacts&) { return true; };
  // The options that replace those of the op; null: float. With `is_effort`: its accuracy passes.
  nlohmann::ordered_json (*settings)(const OpFacts& op) =
      [](const OpFacts&) -> nlohmann::ordered_json { return nullptr; };
  // expected part of the op's error that is removed
  double (*promise)(const OpFacts& op) = [](const OpFacts&) { return 1.0; };
  Reach reach = Reach::kOp;
  bool is_of_weights = false;  // changes only the op, not the readers of its output
  bool is_costly = true;       // a backend may take longer
  bool is_float = false;       // costs what the float program takes
  bool is_effort = false;      // rows of "effort": the program computes as before
};

// The group size of weights of few bits that the backends' kernels support.
inline constexpr int kSmallGroup = 32;

// From mildest to strongest: if several are chosen for an op, the last wins.
std::span<const Choice> tune_choices();

// A candidate and the ops that it changes.
struct OpCandidate {
  TuneCandidate candidate;
  std::vector<const Node*> ops;
};

// plain: `original` quantized with the base settings, on which the comparison and the sensitivities
// were measured. Costs are shares of the multiply-accumulates (static quantization) or of the
// weights' bits.
std::vector<OpCandidate> find_candidates(const Graph& original, const Graph& plain,
                                         const Comparison& comparison,
                                         const Sensitivities& sensitivities,
                                         const BaseSettings& base, bool is_static);

// Replaces costs by measured times. quantize: quantizes with these settings; called once for each
// choice.
void measure_costs(std::vector<OpCandidate>& candidates, const Graph& original, OpCosts& costs,
                   const std::function<Graph(const nlohmann::ordered_json& config)>& quantize);

// Returns the candidates of process 0, so that all processes search the same ones. peers: null for
// one process.
std::vector<TuneCandidate> shared(std::vector<TuneCandidate> candidates, Peers* peers);

}  // namespace octet

// The changes that `octet tune` searches among: which choices there are for an op, from the mildest
// to float, what each is expected to gain, and what it costs.
#pragma once

#include <functional>
#include <map>
#include <optional>
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

class OpCosts {
 public:
  // Lowers and times the program, kernel by kernel, on one batch. Throws what lower() and
  // Session::run throw.
  OpCosts(const Graph& quantized, std::string backend, int threads, std::vector<c10::IValue> batch);
  // Times another program of the model, in which ops are computed the way of that name.
  void add(const std::string& way, const Graph& graph);

  // How much longer the kernels of these ops of the quantized program take that way, as a part of
  // the whole quantized program's time; 0 where they take no longer. A kernel of several ops counts
  // whole as soon as one of them is named. Without the conversions at the borders.
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

// What is known about an op of the program that tuning starts from.
struct OpFacts {
  Cause cause = Cause::kNone;  // of the error that it adds
  bool is_static = true;       // --mode static
  bool has_weights = false;    // that are quantized
  bool has_weight_options = false, has_per_channel = false, has_effort = false;  // of BaseSettings
  nlohmann::ordered_json options;  // those that cover it
  // in front of the rounding of its output: weights, and inputs rounded per run; of its error
  double before_share = 0;
};

struct Choice {
  std::string name;  // "in float", as "%conv2d in float"
  bool (*applies)(const OpFacts& op);
  // The options that replace those of the op; null: float. With `is_effort`: its passes.
  nlohmann::ordered_json (*settings)(const OpFacts& op);
  double (*promise)(const OpFacts& op);  // part of the op's error that goes
  Reach reach = Reach::kOp;
  bool is_of_weights = false;  // the op alone, not those that read its output
  bool is_costly = true;       // a backend may take longer
  bool is_effort = false;      // rows of "effort": the program computes as before
};

// From the mildest on: of several choices for one op the last wins.
std::span<const Choice> tune_choices();

// A candidate, and the ops that it changes.
struct OpCandidate {
  TuneCandidate candidate;
  std::vector<const Node*> ops;
};

// plain: what the base settings give of `original`; the rest was measured on it. Costs are shares
// of the multiply-accumulates (static quantization) or of the weights' bits.
std::vector<OpCandidate> find_candidates(const Graph& original, const Graph& plain,
                                         const Comparison& comparison,
                                         const Sensitivities& sensitivities,
                                         const BaseSettings& base, bool is_static);

// Costs in time instead. quantize: the program of these settings; it is asked once for each choice.
void measure_costs(std::vector<OpCandidate>& candidates, const Graph& original, OpCosts& costs,
                   const std::function<Graph(const nlohmann::ordered_json& config)>& quantize);

}  // namespace octet

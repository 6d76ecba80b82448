// The changes that tuning searches among: each choice for each op, with what it promises and costs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "annotate/compare/compare.h"
#include "annotate/compare/diagnosis.h"
#include "core/graph/graph.h"
#include "tools/cli/tune/base_settings.h"
#include "tools/cli/tune/op_costs.h"
#include "tools/cli/tune/search.h"

namespace octet {

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

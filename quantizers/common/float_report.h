// Reports why each compute op without annotation stays float.
#pragma once

#include <span>
#include <string>

#include "annotate/rules/annotation_rule.h"
#include "core/base/report.h"
#include "quantizers/common/module_filter.h"

namespace octet {

// The stage of entries about ops that a configuration does not cover: it is dynamic or weight-only,
// and they have no weights.
inline constexpr const char* kModeStage = "mode";
inline constexpr const char* kPartOfFormula = "it is part of a GELU, which is computed in one step";
inline constexpr const char* kWeightsAlone =
    "its configuration quantizes only weights, and it has none";
// For ops that are folded by lowering or by PyTorch's freezing.
inline constexpr const char* kComputedAhead =
    "it depends on no input and is computed ahead of time";

// Ops that compute. The report has a reason for each of them that stays float.
std::span<const std::string> compute_ops();

struct FloatReportArgs {
  std::string quantizer;  // its name
  const ConfigTable& configs;
  const NodeFilter& filter;  // may be empty
  const RuleState& state;    // what the rules refused
  std::span<const std::string> compute_ops;
  std::span<const std::string> sharing_ops;
  bool has_modes = false;  // its configurations may be dynamic or weight-only
};

// Adds an entry of stage "annotate" (or kModeStage) for each compute op without annotation, and a
// note for each config row that applies to no node.
void report_float_nodes(const Graph& graph, const Annotations& annotations,
                        const FloatReportArgs& args, Report& report);

}  // namespace octet

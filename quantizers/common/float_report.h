// Says of each compute op that got no annotation why it stays float.
#pragma once

#include <span>
#include <string>

#include "annotate/rules/annotation_rule.h"
#include "core/base/report.h"
#include "quantizers/common/module_filter.h"

namespace octet {

// The stage of entries about ops that a configuration never promised to quantize: it is dynamic or
// of weights alone, and they have no weights.
inline constexpr const char* kModeStage = "mode";
inline constexpr const char* kPartOfFormula = "it is part of a GELU, which is computed in one step";
inline constexpr const char* kWeightsAlone =
    "its configuration quantizes weights alone, and it has none";
// Of ops that lowering folds, or PyTorch's freezing.
inline constexpr const char* kComputedAhead = "it depends on no input and is computed ahead";

// Ops that compute: the report says of each one without annotation why it stayed float.
std::span<const std::string> compute_ops();

struct FloatReportArgs {
  std::string quantizer;  // its name
  const ConfigTable& configs;
  const NodeFilter& filter;  // may be empty
  const RuleState& state;    // what the rules refused
  std::span<const std::string> compute_ops;
  std::span<const std::string> sharing_ops;
  bool has_modes = false;  // its configurations may be dynamic or of weights alone
};

// Adds one entry of stage "annotate" (or kModeStage) per compute op without annotation, and a note
// per config row that applies to no node.
void report_float_nodes(const Graph& graph, const Annotations& annotations,
                        const FloatReportArgs& args, Report& report);

}  // namespace octet

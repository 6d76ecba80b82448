// Patterns, specs of inputs, and checks that the rule tables of several quantizers share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annotate/rules/annotation_rule.h"
#include "core/ops/weighted_ops.h"
#include "quantizers/common/checks.h"
#include "quantizers/common/weight_only.h"

namespace octet::rule_rows {

// x: activation, w: weight [out, in / groups, ...], b: bias, y: the other operand.
inline const std::string kConv = pattern_ops(WeightForm::kConv) + "(x, w, b?)";
// w: [in, out / groups, ...]
inline const std::string kConvTranspose = pattern_ops(WeightForm::kTransposedConv) + "(x, w, b?)";
inline const std::string kLinear = "linear(x, w, b?)";
inline const std::string kAddmm = "addmm(b, x, w)";  // linear layers whose weight is [in, out]
inline const std::string kMm = "mm(x, w)";           // without bias

// A batch norm belongs to the pattern only in training (has_norm_outside_of_training).
inline std::string norm_if_any(const std::string& pattern) {
  return "batch_norm?(" + pattern + ", ...)";
}
inline std::string clamp_if_any(const std::string& pattern) {
  return "{relu|relu6|hardtanh|clamp}?(" + pattern + ")";
}

using Inputs = std::vector<std::pair<std::string, SlotSpec>>;
using Checks = std::vector<RuleCheck>;

// clang-format off
inline const Inputs kWeighted   = {{"x", kInput}, {"w", kWeight}, {"b", kBias}};
inline const Inputs kTransposed = {{"x", kInput}, {"w", weight_along(1)}, {"b", kBias}};
inline const Inputs kColumns    = {{"x", kInput}, {"w", weight_along(1)}};
inline const Inputs kBinary     = {{"x", kInput}, {"y", kInput}};
inline const Inputs kList       = {{"x", all_same(Role::kInput)}};
// clang-format on

inline const Checks kWeightedChecks = {inputs_are_float32, weight_is_constant,
                                       constants_are_observable, groups_divide_weight};
inline const Checks kTransposedChecks = {inputs_are_float32, weight_is_constant,
                                         constants_are_observable, has_one_group};

}  // namespace octet::rule_rows

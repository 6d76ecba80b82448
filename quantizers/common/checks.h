// Conditions of annotation rules that several quantizers share, beyond the shape of their patterns.
#pragma once

#include <string>

#include "annotate/rules/annotation_rule.h"

namespace octet {

// "conv2d" of aten.conv2d.default.
std::string op_name(const Node& node);

// Every tensor that the pattern binds is float32: observers see only that.
Verdict inputs_are_float32(const RuleMatch& at);
// No bound constant holds a value beyond 3.4e15, the most that a histogram can take. compat: looks
// at single-element constants only.
Verdict constants_are_observable(const RuleMatch& at);
Verdict scalars_are_observable(const RuleMatch& at);
// Slot w is a parameter, buffer or constant, or computed from those alone.
Verdict weight_is_constant(const RuleMatch& at);
// Of transposed convolutions: one group.
Verdict has_one_group(const RuleMatch& at);

}  // namespace octet

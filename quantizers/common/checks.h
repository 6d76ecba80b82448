// Conditions of annotation rules that several quantizers share, beyond the shape of their patterns.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "annotate/rules/annotation_rule.h"

namespace octet {

// "conv2d" of aten.conv2d.default.
std::string op_name(const Node& node);

// The node that made the value, beyond ops that move its elements (views, casts, slices, cat); null
// for graph inputs.
const Node* find_maker_of_elements(const Value* value);
// A node of one of `ops` that takes the value as it is, moved at most; null when there is none.
const Node* find_taker_of_elements(const Value* value, std::span<const std::string_view> ops);
// A parameter, buffer or constant that nothing writes to, or computed from those alone.
bool is_of_constants(const Graph& graph, const Value* value);

// Every tensor that the pattern binds is float32: observers see only that.
Verdict inputs_are_float32(const RuleMatch& at);
// No bound constant holds a value beyond 3.4e15, the most that a histogram can take. compat: looks
// at single-element constants only.
Verdict constants_are_observable(const RuleMatch& at);
Verdict scalars_are_observable(const RuleMatch& at);
// Slot w is_of_constants.
Verdict weight_is_constant(const RuleMatch& at);
// No cos or sin takes the result, moved or not: as an angle (positions times frequencies, say) it
// reaches over many turns, and a step of its scale is too much of one.
Verdict result_is_no_angle(const RuleMatch& at);
// No product with a large constant takes 1 - result, or the result, moved or not: such is a mask,
// and what rounding leaves of its zeros would mask everything.
Verdict result_is_no_mask(const RuleMatch& at);
// Transposed convolutions: one group.
Verdict has_one_group(const RuleMatch& at);
// Slot y, if it is bound, is not made by the pattern itself: not add(conv, conv).
Verdict addend_is_another_value(const RuleMatch& at);

}  // namespace octet

// Conditions of annotation rules that several quantizers share.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "annotate/rules/annotation_rule.h"

namespace octet {

// "conv2d" for aten.conv2d.default.
std::string op_name(const Node& node);

// Finds the node that made the value's elements, looking through ops that move them (views, casts,
// slices, cat); null for graph inputs.
const Node* find_maker_of_elements(const Value* value);
// Finds a node of one of `ops` that uses the value or its moved elements; null when there is none.
const Node* find_taker_of_elements(const Value* value, std::span<const std::string_view> ops);
// Whether the value is a parameter, buffer or constant that nothing writes to, or is computed from
// such values alone.
bool is_of_constants(const Graph& graph, const Value* value);

// Every tensor that the pattern binds is float32, the only dtype that observers support.
Verdict inputs_are_float32(const RuleMatch& at);
// No bound constant holds a value beyond 3.4e15, the limit of histograms. compat: checks
// single-element constants only.
Verdict constants_are_observable(const RuleMatch& at);
Verdict scalars_are_observable(const RuleMatch& at);
// Slot w is_of_constants.
Verdict weight_is_constant(const RuleMatch& at);
// No cos or sin uses the result, moved or not: an angle (positions times frequencies, say) spans
// many turns, so one step of its scale would be too coarse.
Verdict result_is_no_angle(const RuleMatch& at);
// No product with a large constant uses the result or 1 - result, moved or not: the result is then
// a mask, and rounding errors of its zeros would mask everything.
Verdict result_is_no_mask(const RuleMatch& at);
// Transposed convolutions have one group.
Verdict has_one_group(const RuleMatch& at);
// Slot y, if bound, is not computed inside the pattern: not add(conv, conv).
Verdict addend_is_another_value(const RuleMatch& at);

}  // namespace octet

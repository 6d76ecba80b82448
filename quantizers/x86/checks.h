// Conditions of the X86 rows beyond the shape of their patterns. Those on weights, dtypes and
// constants are in xnnpack_checks.h.
#pragma once

#include "annotate/rules/annotation_rule.h"

namespace octet {

// Slot y is not made by the pattern itself: not add(conv, conv).
Verdict addend_is_another_value(const RuleMatch& at);
// Slots x and y have equal shapes.
Verdict operands_have_one_shape(const RuleMatch& at);
// Every value of slot x comes from an annotated op, through ops that change no value.
Verdict inputs_are_quantized(const RuleMatch& at);
// An annotated op reads the result.
Verdict result_is_quantized(const RuleMatch& at);

}  // namespace octet

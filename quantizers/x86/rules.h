// The rule tables of the X86 quantizer. compat.h has torchao's choices.
#pragma once

#include <span>

#include "annotate/rules/annotation_rule.h"

namespace octet {

// Convolutions and linear ops with the elementwise ops after them, mul, matmul. Their inputs get
// observers; a result is observed by the op that reads it.
std::span<const AnnotationRule> x86_rules();
// For configs with dynamic or float activations (float16 weights).
std::span<const AnnotationRule> x86_dynamic_rules();
// Ops that read and write integers of one scale between quantized ops. Apply the rules until they
// annotate nothing more, since one such op may follow another.
std::span<const AnnotationRule> x86_propagation_rules();

// Whether the global configuration does not apply to the rule: a setting must name its op or
// module.
bool is_opt_in(const AnnotationRule& rule);

}  // namespace octet

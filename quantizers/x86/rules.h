// The tables of patterns that the X86 quantizer annotates. compat.h has torchao's choices.
#pragma once

#include <span>

#include "annotate/rules/annotation_rule.h"

namespace octet {

// Convolutions, linear ops and the elementwise ops that follow them, mul, matmul. Their inputs get
// observers; the op that reads a result observes it.
std::span<const AnnotationRule> x86_rules();
// For configs whose activations are dynamic or stay float (float16 weights).
std::span<const AnnotationRule> x86_dynamic_rules();
// Ops that, between quantized ops, read and write integers of one scale. Repeat them until they
// annotate nothing more: one may follow another.
std::span<const AnnotationRule> x86_propagation_rules();

// Rules that the global configuration does not reach: their op or module must be named.
bool is_opt_in(const AnnotationRule& rule);

}  // namespace octet

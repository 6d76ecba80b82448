// What the X86 quantizer takes by itself, as tables: matched by structure alone. compat.h has
// torchao's choices.
#pragma once

#include <span>

#include "annotate/rules/annotation_rule.h"

namespace octet {

// Convolutions, linear ops and their elementwise followers, mul, matmul: inputs are observed; a
// result is observed by those who take it.
std::span<const AnnotationRule> x86_rules();
// For training, asked before those: a batch norm behind the convolution or linear op belongs to it.
std::span<const AnnotationRule> x86_batch_norm_rules();
// Of configs whose activations are dynamic or stay float (float16 weights).
std::span<const AnnotationRule> x86_dynamic_rules();
// Between quantized ops these read and write integers of one scale. To be repeated until nothing is
// added: they stand behind each other.
std::span<const AnnotationRule> x86_propagation_rules();

// Rules that the global configuration does not reach: their op or module must be named.
bool is_opt_in(const AnnotationRule& rule);

}  // namespace octet

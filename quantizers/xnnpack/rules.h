// The rule tables of the XNNPACK quantizer. torchao's choices are those of ExecuTorch's
// XNNPACKQuantizer.
#pragma once

#include <span>
#include <string>

#include "annotate/rules/annotation_rule.h"

namespace octet {

// Octet's own rows, static and dynamic.
std::span<const AnnotationRule> xnnpack_rules();
std::span<const AnnotationRule> xnnpack_dynamic_rules();
// torchao's choices, in its order.
std::span<const AnnotationRule> xnnpack_rules_compat();
std::span<const AnnotationRule> xnnpack_dynamic_rules_compat();

// torchao's rows with batch norms, which it tries first in training.
std::span<const AnnotationRule> xnnpack_batch_norm_rules_compat();

// Ops that move, select or clamp values. An int8 kernel keeps scale and zero point, so input and
// output share one observer.
std::span<const std::string> xnnpack_sharing_ops();
std::span<const std::string> xnnpack_sharing_ops_compat();

// compat: the ops for which set_operator_type() applies this row.
std::span<const std::string> operator_types_of(const std::string& rule);

}  // namespace octet

// The rule tables of the XNNPACK quantizer and the conditions of their rows. torchao's choices are
// those of ExecuTorch's XNNPACKQuantizer.
#pragma once

#include <span>
#include <string>
#include <vector>

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

// torchao's condition: output channels / weight.shape[1] is 1.
Verdict has_one_group_by_shape(const RuleMatch& at);
// Slot w has 4 dimensions and more than one input channel per group, as dynamic quantization of
// convolutions requires.
Verdict is_plain_conv2d(const RuleMatch& at);
// The match is not part of a decomposed norm (RMSNorm): the sum under its root, the product with
// its rsqrt, or the product of that and a weight. The rsqrt of one row may be hundreds of times
// that of another.
Verdict is_no_part_of_norm(const RuleMatch& at);
// compat: a convolution that only a relu reads is left to the conv_relu rows, even when they refuse
// it.
Verdict is_not_before_relu(const RuleMatch& at);
// compat: the pool is an output of a source partition of nn.AdaptiveAvgPool2d or
// F.adaptive_avg_pool2d.
Verdict is_pool_partition(const RuleMatch& at);

// Whether the result of a sharing op holds only values of its input and zeros; false when it pads
// with other values.
bool shares_scale(const Node& node);

// For cat: the first input that traces through sharing ops to an output with a spec, else the first
// input.
Value* first_quantized_input(const RuleMatch& at, const std::vector<Value*>& values);
Value* first_quantized_input_compat(const RuleMatch& at, const std::vector<Value*>& values);

// compat: the nodes in the source partition of the pool, in graph order. A module that is called
// twice makes one partition.
std::vector<const Node*> pool_partition(const Graph& graph, const Node& pool);

}  // namespace octet

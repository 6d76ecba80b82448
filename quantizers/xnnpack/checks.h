// Conditions of the XNNPACK rows beyond the shape of their patterns.
#pragma once

#include <vector>

#include "annotate/rules/annotation_rule.h"

namespace octet {

// As torchao asks it: output channels / weight.shape[1] is 1.
Verdict has_one_group_by_shape(const RuleMatch& at);
// Slot w has 4 dimensions and more than one input channel per group: the convolutions that quantize
// dynamically.
Verdict is_plain_conv2d(const RuleMatch& at);
// Not of a norm that is written out (RMSNorm): the sum under its root, the product with its rsqrt,
// the product of that and a weight. The rsqrt of short rows may be hundreds of times that of
// others.
Verdict is_no_part_of_norm(const RuleMatch& at);
// compat: a convolution read by a relu alone is left to the conv_relu rows even when those refuse
// it.
Verdict is_not_before_relu(const RuleMatch& at);
// compat: the pool is an output of a source partition of nn.AdaptiveAvgPool2d or
// F.adaptive_avg_pool2d.
Verdict is_pool_partition(const RuleMatch& at);

// Whether the result of a sharing op holds only values of its input, and zeros: not when it pads
// with anything else.
bool shares_scale(const Node& node);

// For cat: the first input that traces through sharing ops to an output with a spec, else the
// first.
Value* first_quantized_input(const RuleMatch& at, const std::vector<Value*>& values);
Value* first_quantized_input_compat(const RuleMatch& at, const std::vector<Value*>& values);

// compat: nodes of the same source partition as the pool (a module called twice makes one
// partition), in graph order.
std::vector<const Node*> pool_partition(const Graph& graph, const Node& pool);

}  // namespace octet

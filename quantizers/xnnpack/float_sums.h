// Sums that norms read: the residual stream of transformers.
//
//   y = layer_norm(x + linear(...))
//
// Some channels of such a sum are often a hundred times as large as the others. One scale for all
// of them leaves nothing of the others, and the norm, which would bring them back, computes in
// float anyway.
#pragma once

#include "annotate/annotation/annotation.h"
#include "annotate/rules/annotation_rule.h"

namespace octet {

// Takes back the annotations of additions whose results only norms, and other such additions, read;
// and of linear layers that only those read, the spec of the output: the layer multiplies integers
// and gives floats. Views between them do not matter. What a program gives back stays as it is. The
// reasons go into `state`. Returns the number of additions left float.
int leave_norm_operands_float(const Graph& graph, Annotations& annotations, RuleState& state);

}  // namespace octet

// Leaves sums float that norms read, as in the residual stream of transformers.
//
//   y = layer_norm(x + linear(...))
//
// Some channels of such a sum are often a hundred times as large as the others. One scale for all
// channels would round the others to almost nothing. The norm would rescale them, and it computes
// in float anyway.
#pragma once

#include "annotate/annotation/annotation.h"
#include "annotate/rules/annotation_rule.h"

namespace octet {

// Removes the annotations of additions whose results are read only by norms and other such
// additions, looking through views; and, from linear layers that only those additions read, the
// output spec, so that the layer multiplies integers and returns floats. Outputs of the program
// keep their annotations. Records the reasons in `state`. Returns the number of additions left
// float.
int leave_norm_operands_float(const Graph& graph, Annotations& annotations, RuleState& state);

}  // namespace octet

// Constraints of a row in JSON: conditions on the graph, which decide whether the row takes a
// match, and limits on the result.
//
//   "constraints": {"x": TENSOR, "output": TENSOR, "op": {"groups": 1 or [1, 2]}}
//   TENSOR, of a slot or of the pattern's result:
//     "dtype": "float32" or a list, "rank" or "min_rank", "max_rank", "one_user": true,
//         "is_constant": true       on the graph
//     "quantized_dtype": "int8" or a list, "quant_min_lower_bound", "quant_max_upper_bound"
//         on its spec
//     "scale_min_lower_bound", "scale_max_upper_bound", "scale_exact_match",
//         "zero_point_exact_match"             on its scale
#pragma once

#include "annotate/rules/annotation_rule.h"
#include "quantizers/json/place.h"

namespace octet {

// The "constraints" of a row whose cells were read already. Throws Error("quantizer", "file.json:
// /patterns/0/constraints/x", ...) for each fault, for limits on what has no spec, and for what the
// row's own specs can never meet.
RuleConstraints constraints_at(const Place& place, const Pattern& pattern,
                               const AnnotationRule& row);

}  // namespace octet

// Reads the constraints of a row from JSON: conditions on the graph, which decide whether the row
// takes a match, and limits on the result.
//
//   "constraints": {"x": TENSOR, "output": TENSOR, "op": {"groups": 1 or [1, 2]}}
//   TENSOR, of a slot or of the pattern's result:
//     on the graph: "dtype": "float32" or a list, "rank" or "min_rank", "max_rank",
//         "one_user": true, "is_constant": true
//     on its spec: "quantized_dtype": "int8" or a list, "quant_min_lower_bound",
//         "quant_max_upper_bound"
//     on its scale: "scale_min_lower_bound", "scale_max_upper_bound", "scale_exact_match",
//         "zero_point_exact_match"
#pragma once

#include "annotate/rules/annotation_rule.h"
#include "quantizers/json/place.h"

namespace octet {

// Reads the "constraints" of a row whose specs have been read. Throws Error("quantizer",
// "file.json: /patterns/0/constraints/x", ...) for each mistake, for limits on tensors without
// spec, and for limits that the row's specs can never meet.
RuleConstraints constraints_at(const Place& place, const Pattern& pattern,
                               const AnnotationRule& row);

}  // namespace octet

// Reads declared backends from JSON: the rows of an annotation table.
//
//   {"name": "toy_npu", "specs": {"act": {...}, "weight": {...}},
//    "patterns": [{"name": "conv_relu", "pattern": "relu(conv2d(x, w, b?))",
//                  "inputs": {"x": "act", "w": "weight"}, "output": "act",
//                  "allow_implicit_sharing": true, "constraints": {"x": {"max_rank": 4}},
//                  "owned": ["w"], "marked": ["b"]}],
//    "sharing_ops": ["max_pool2d", "aten.view.default"]}
//
// A row may list several dtype configurations by name instead of "inputs", "output" and
// "constraints". A setting {"dtype_config": "w4"} chooses one, else the first applies:
//
//   {"pattern": "linear(x, w)", "dtype_configs": [
//       {"name": "int8", "inputs": {"x": "act", "w": "weight"}, "output": "act"},
//       {"name": "w4", "inputs": {"w": "weight4"}}]}
//
// core/pattern/pattern.h defines the notation of patterns, specs.h that of specs, and
// constraints_at() below that of constraints. "owned", "marked" and "owner" ("first",
// "first_quantized") are members of AnnotationRule. sharing_ops take the scale of their input. The
// first row that matches an op takes it.
#pragma once

#include "annotate/rules/annotation_rule.h"
#include "quantizers/compose/declared_quantizer.h"
#include "quantizers/json/place.h"

namespace octet {

// Reads "name" (default "declared"), "specs", "patterns" and "sharing_ops" of the object; ignores
// other keys. Throws Error("quantizer", "file.json: /patterns/0/inputs/x", ...) for each mistake.
DeclaredBackend declared_backend_at(const Place& root);

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
//
// The row's specs have been read. Throws Error("quantizer",
// "file.json: /patterns/0/constraints/x", ...) for each mistake, for limits on tensors without
// spec, and for limits that the row's specs can never meet.
RuleConstraints constraints_at(const Place& place, const Pattern& pattern,
                               const AnnotationRule& row);

}  // namespace octet

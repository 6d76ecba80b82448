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
// core/pattern/pattern.h defines the notation of patterns, specs.h that of specs, constraints.h
// that of constraints. "owned", "marked" and "owner" ("first", "first_quantized") are members of
// AnnotationRule. sharing_ops take the scale of their input. The first row that matches an op takes
// it.
#pragma once

#include "quantizers/compose/declared_quantizer.h"
#include "quantizers/json/place.h"

namespace octet {

// Reads "name" (default "declared"), "specs", "patterns" and "sharing_ops" of the object; ignores
// other keys. Throws Error("quantizer", "file.json: /patterns/0/inputs/x", ...) for each mistake.
DeclaredBackend declared_backend_at(const Place& root);

}  // namespace octet

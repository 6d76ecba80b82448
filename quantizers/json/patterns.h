// Declared backends in JSON: the rows of an annotation table.
//
//   {"name": "toy_npu", "specs": {"act": {...}, "weight": {...}},
//    "patterns": [{"name": "conv_relu", "pattern": "relu(conv2d(x, w, b?))", "inputs": {"x": "act",
//        "w": "weight"}, "output": "act",
//                  "allow_implicit_sharing": true, "constraints": {"x": {"max_rank": 4}}, "owned":
//                      ["w"], "marked": ["b"]}],
//    "sharing_ops": ["max_pool2d", "aten.view.default"]}
//
// A row whose backend can do several things lists them by name instead of its "inputs", "output"
// and "constraints"; a setting {"dtype_config": "w4"} chooses one, else the first counts:
//
//   {"pattern": "linear(x, w)", "dtype_configs": [{"name": "int8", "inputs": {"x": "act", "w":
//       "weight"}, "output": "act"}, {"name": "w4", "inputs": {"w": "weight4"}}]}
//
// The notation of patterns is that of core/pattern/pattern.h, the cells are those of specs.h,
// constraints those of constraints.h; "owned", "marked" and "owner" ("first", "first_quantized")
// are members of AnnotationRule. sharing_ops take the scale of what they read. Rows count in order:
// the first that matches an op takes it.
#pragma once

#include "quantizers/json/declared_quantizer.h"
#include "quantizers/json/place.h"

namespace octet {

// "name" (default "declared"), "specs", "patterns" and "sharing_ops" of the object; other keys are
// not looked at. Throws Error("quantizer", "file.json: /patterns/0/inputs/x", ...) for each fault.
DeclaredBackend declared_backend_at(const Place& root);

}  // namespace octet

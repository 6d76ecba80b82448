// Declared backends in JSON: the rows of an annotation table.
//
//   {"name": "toy_npu", "specs": {"act": {...}, "weight": {...}},
//    "patterns": [{"name": "conv_relu", "pattern": "relu(conv2d(x, w, b?))", "inputs": {"x": "act", "w": "weight"}, "output": "act",
//                  "allow_implicit_sharing": true}]}
//
// The notation of patterns is that of core/pattern.h, the cells are those of json_specs.h. Rows count in order: the first that matches an op takes it.
#pragma once

#include "quantizers/declared_quantizer.h"
#include "quantizers/json_place.h"

namespace octet {

// "name" (default "declared"), "specs" and "patterns" of the object; other keys are not looked at. Throws Error("quantizer",
// "file.json: /patterns/0/inputs/x", ...) for each fault.
DeclaredBackend declared_backend_at(const Place& root);

}  // namespace octet

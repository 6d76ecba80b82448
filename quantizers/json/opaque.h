// Reads opaque parts from JSON: the key "opaque" at the top of each form of file and of --config.
//
//   "opaque": [
//     {"module": "postprocess"},
//     {"module_type": "my.Decoder"},
//     {"op": "my_ns.nms.default", "recorded": true},
//     {"ops": ["aten.mul", "my_ns.gate.default"], "quantized_inputs": {"0": "act"},
//      "quantized_outputs": {"0": {"same_as": {"input": 0}}}},
//     {"module": "head", "quantizer": {"base": "x86", "global": {}}}
//   ]
//
// "quantizer" takes what "compose" takes: a name, a path, an object. A spec is given in place or by
// a name in the file's "specs"; it has a separate observer, is fixed, or shares that of an input of
// the part.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "annotate/graph/opaque_parts.h"
#include "quantizers/json/place.h"

namespace octet {

// Makes a quantizer from a name, a path or an object.
using QuantizerReaderFn = std::function<std::shared_ptr<Quantizer>(const Place&)>;

// Reads the parts of a file; none without the key. Throws Error("quantizer", "file.json:
// /opaque/0/...", ...) for each mistake.
std::vector<OpaquePart> opaque_at(const Place& root, const QuantizerReaderFn& read_quantizer);

}  // namespace octet

// Affine observers become torchao's affine ops.
#pragma once

#include <string>

#include "annotate/observers/affine.h"
#include "core/graph/graph.h"

namespace octet {

// Puts quantize and dequantize of `input` before `point` and returns what dequantize gives:
//   static    torchao.{quantize,dequantize}_affine.default, scale and zero point as buffers _scaleN
//             and _zero_pointN
//   dynamic   torchao.choose_qparams_affine.default gives them at run time. Blocks of one element
//             get no ops, and `input` is returned: quantizing an element with its own scale
//             changes nothing, and torchao's op cannot choose such scales.
// Arguments are those of the observer's options, None where these say nothing. Throws
// Error("convert", "%value", ...) when the observer saw no data, and when the blocks need sizes
// that are known at run time only.
Value* add_affine_pair(Graph& graph, Node& point, Value* input, const AffineObserver& observer);

// A buffer under prefix + the first free number.
Value* add_numbered_constant(Graph& graph, const std::string& prefix, Tensor tensor);

}  // namespace octet

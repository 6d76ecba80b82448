// Rewrites the quantize and dequantize ops of a q/dq graph as plain ATen ops or as torchao's affine
// ops, for `octet quantize --qdq`.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// As ATen ops, for a PyTorch without quantized_decomposed:
//   q:   clamp(round(x * (1 / scale)) + zero_point, quant_min, quant_max), cast to the dtype
//   dq:  (x - zero_point) * scale, in the result's dtype
// Also in the bodies of control flow. The results have the bits of the q/dq graph. Throws
// Error("convert", ...) if an op of quantized_decomposed or torchao is left: those with scales
// chosen at run time, and those with a scale per group. Returns the number of rewrites.
int to_native_qdq(Graph& graph);

// As torchao's quantize_affine and dequantize_affine, with a block for the whole tensor or for each
// channel; scales and zero points are constants, one pair for equal numbers. The results have the
// bits of the q/dq graph where scales are float32, as calibrated ones are; a fixed scale such as
// 1/255 may round single values at half steps the other way. Throws Error("convert", ...) for
// scales that quantized_decomposed chooses at run time, and for q and dq in the bodies of control
// flow, which take no constants. Returns the number of rewrites.
int to_affine_qdq(Graph& graph);

}  // namespace octet

// Writes the quantize and dequantize ops of a q/dq graph as ATen ops, for a PyTorch without
// quantized_decomposed:
//   q:   clamp(round(x * (1 / scale)) + zero_point, quant_min, quant_max), cast to the dtype
//   dq:  (x - zero_point) * scale, in the result's dtype
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Also in the bodies of control flow. The results have the bits of the q/dq graph. Throws
// Error("convert", ...) if an op of quantized_decomposed or torchao is left: those with scales
// chosen at run time, and those with a scale per group. Returns the number of rewrites.
int to_native_qdq(Graph& graph);

}  // namespace octet

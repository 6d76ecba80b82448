// Writes q/dq graphs in other ops: as integer arithmetic, the reference representation that
// hardware engineers read (torchao's use_reference_representation), and as ATen ops.
#pragma once

#include "annotate/annotation/quant_spec.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// Applies compute_reference_rules(), largest patterns first, then rewrites each remaining quantize
// and dequantize:
//   linear, conv, dynamic linear   out_dtype(op, int32, x - zero_point, w - zero_point), bias in
//                                  steps of scale(x) * scale(w), one multiplier; transposed and
//                                  dilated convolutions sum the integers as float64
//   add, add+relu, max_pool2d      int32 arithmetic and one multiplier per input
// kNone gives the results of the q/dq graph except for ties and float noise; kTorchao those of
// convert_pt2e(use_reference_representation=True). choose_qparams and dtypes without an integer
// form (uint16, float8; in kTorchao all but int8) stay unchanged, with a note. Returns the number
// of rewrites.
int to_reference_representation(Graph& graph, Compat compat, Report& report);

// Writes the quantize and dequantize ops of a q/dq graph as ATen ops, for a PyTorch without
// quantized_decomposed:
//   q:   clamp(round(x * (1 / scale)) + zero_point, quant_min, quant_max), cast to the dtype
//   dq:  (x - zero_point) * scale, in the result's dtype
// Also in the bodies of control flow. The results have the bits of the q/dq graph. Throws
// Error("convert", ...) if an op of quantized_decomposed or torchao is left: those with scales
// chosen at run time, and those with a scale per group. Returns the number of rewrites.
int to_native_qdq(Graph& graph);

}  // namespace octet

// Writes q/dq graphs in other forms: as integer arithmetic, the reference representation that
// hardware engineers read (torchao's use_reference_representation), and with other q and dq ops
// (native_qdq.cpp).
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

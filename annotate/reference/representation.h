// Writes q/dq graphs as integer arithmetic, the reference representation that hardware engineers
// read (torchao's use_reference_representation).
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

}  // namespace octet

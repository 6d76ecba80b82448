// The integer reference representation: q/dq arithmetic written out in integer ops, as a hardware
// engineer wants to read it.
#pragma once

#include "annotate/reference/rules.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// Rewrites, largest pattern first, what stands in compute_reference_rules(), then each quantize and
// dequantize that is left:
//   linear, conv, dynamic linear   out_dtype(op, int32, x - zero_point, w - zero_point), bias in
//       steps of scale(x) * scale(w), one multiplier; transposed and dilated convolutions add up
//       the integers as float64
//   add, add+relu, max_pool2d      int32 arithmetic and a multiplier an input
// kNone gives what the q/dq graph gives but for ties and float noise; kTorchao what
// convert_pt2e(use_reference_representation=True) gives. choose_qparams and the types without
// integer form (uint16, float8; in kTorchao all but int8) stay as they are and are noted in the
// report. Returns the number of rewrites.
int to_reference_representation(Graph& graph, Compat compat, Report& report);

}  // namespace octet

// Affine observers become torchao's affine ops.
#pragma once

#include <string>

#include "annotate/observed/observed_graph.h"
#include "annotate/observers/affine.h"
#include "core/base/report.h"
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

// Buffers that a program reads quantized and writes dequantized, stored quantized.

//   %r = q(%state) ... dq(%r)        %r = %state (int8) ... dq(%r)
//   %d = dq(%y)                  ->
//   copy_(%state, %d)                copy_(%state, %y)
// A buffer qualifies when all of its users are per-tensor quantize ops and at least one copy_ (or
// mutation output of the program) whose source is dequantized, all with the same scale, zero point,
// range and dtype. Its initial value is quantized too. A read whose quantized value is used after a
// write keeps a copy. Buffers that are written quantized but do not qualify (views of them, other
// scales, other writes) stay float with a note. Runs after convert, before the constants are
// folded. Returns the number of buffers changed.
int fold_quantize_into_mutable_buffers(Graph& graph, Report& report);

// Sums and concatenations one operand of which is less than half a step of the result's scale, so
// that all of it would be rounded to zero:
//
//   x + branch        x within 4, so the result has steps of 0.03; the branch within 1e-6
//   cat(cls, x)       the class token begins as 1e-6, and a layer norm behind makes it large
//   scores + mask     -3e38 where a key is masked, in both as well
//
// No scale holds both. Such an op is left float.

// Leaves them float: add and sub whose operand's observed range is such, or whose result reaches
// beyond 3.4e15, cat and stack with such a constant (a parameter, also expanded or reshaped), and
// the ops behind that share the result's scale. What reads the result and has a spec for it stays
// quantized, what is float reads it unrounded. An entry in the report for each. Runs after
// calibration; fake-quants are left alone, as training has seen the loss. Returns the number of ops
// left float.
int leave_vanishing_operands_float(ObservedGraph& observed, Report& report);

}  // namespace octet

// Three steps of convert_pt2e (convert.h): write affine q/dq pairs, store buffers as integers,
// leave sums float whose scale would erase an operand.
#pragma once

#include "annotate/observed/observed_graph.h"
#include "annotate/observers/affine.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// Inserts torchao's affine quantize and dequantize of `input` before `point` and returns the result
// of dequantize:
//   static    torchao.{quantize,dequantize}_affine.default, scale and zero point as buffers _scaleN
//             and _zero_pointN
//   dynamic   torchao.choose_qparams_affine.default computes them at run time. Blocks of one
//             element get no ops, and `input` is returned: quantizing an element with its own
//             scale changes nothing, and torchao's op cannot choose such scales.
// Arguments are the observer's options, None for absent ones. Throws Error("convert", "%value",
// ...) when the observer saw no data, and when the blocks need sizes known only at run time.
Value* add_affine_pair(Graph& graph, Node& point, Value* input, const AffineObserver& observer);

// Adds a buffer named prefix + the first free number.
Value* add_numbered_constant(Graph& graph, const std::string& prefix, Tensor tensor);

// Stores buffers as integers that the program reads through quantize and writes through dequantize
// ops:
//   %r = q(%state) ... dq(%r)        %r = %state (int8) ... dq(%r)
//   %d = dq(%y)                  ->
//   copy_(%state, %d)                copy_(%state, %y)
// A buffer qualifies when all of its users are per-tensor quantize ops and at least one copy_ (or
// mutation output of the program) whose source is dequantized, all with the same scale, zero point,
// range and dtype. Its initial value is quantized too. A read whose quantized value is used after a
// write keeps a copy. Buffers that are written quantized but do not qualify (views of them,
// different scales, other writes) stay float, with a note. Runs after convert, before constants are
// folded. Returns the number of buffers changed.
int fold_quantize_into_mutable_buffers(Graph& graph, Report& report);

// Leaves sums and concatenations float when one operand is below half a step of the result's scale,
// so that all of it would be rounded to zero:
//
//   x + branch        x within 4, so the result has steps of 0.03; the branch within 1e-6
//   cat(cls, x)       the class token begins as 1e-6, and a later layer norm makes it large
//   scores + mask     -3e38 where a key is masked, in both operands
//
// No single scale represents both. These are: add and sub with such an operand or a result beyond
// 3.4e15, cat and stack with such a constant (a parameter, also expanded or reshaped), and the ops
// after them that share the result's scale. A reader of the result that has a spec for it stays
// quantized. Adds an entry to the report for each. Runs after calibration. Fake-quants are skipped,
// as training has seen the loss. Returns the number of ops left float.
int leave_vanishing_operands_float(ObservedGraph& observed, Report& report);

}  // namespace octet

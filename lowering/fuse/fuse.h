// Fuses quantize and dequantize ops into their neighbours, so that the program computes on
// integers. Each step is exact, or within one output step where program.h allows it, and returns
// the number of its changes.
#pragma once

#include "lowering/program/program.h"

namespace octet {

// All steps until none changes anything, then drops what is dead and counts multiply-accumulates.
void fuse(Program& program);

// ---- the steps, in the order of fuse()

// quantize(c), permute(c), reshape(c), cast(c) between f32 and f16 of constants are computed now;
// dequantize(c) too when nobody can read the integers (32 bits: biases).
int fold_constants(Program& program);
// Equal quantize or dequantize ops of one tensor become one.
int merge_duplicates(Program& program);
// reshape(reshape(x)), permute(permute(x)) and expand(expand(x)) become one op; what changes
// nothing vanishes.
int merge_movement(Program& program);
// matmul(a, c) -> linear(a, transposed c); add(linear(a, w), c) -> linear(a, w, c).
int make_linear(Program& program);
// 0.5 * x * (1 + tanh(...)) -> gelu_tanh(x); 0.5 * x * (1 + erf(...)) -> gelu(x).
int make_gelu(Program& program);
// x * rsqrt(mean(x * x) + eps) * weight -> rms_norm(x, weight).
int make_rms_norm(Program& program);
// x * cos + cat(-x[half:], x[:half]) * sin -> rotary(x, cos, sin).
int make_rotary(Program& program);
// move(fake_quantize_dynamic(x)) -> fake_quantize_dynamic(move(x)) for permutations that leave rows
// whole, and for reshapes where there is one scale.
int sink_dynamic_quantize(Program& program);
// move(dequantize(x)) -> dequantize(move(x)); for cat when all inputs have equal scale and zero
// point.
int sink_dequantize(Program& program);
// quantize(move(x)) -> move(quantize(x)) when nobody else reads either.
int hoist_quantize(Program& program);
// quantize(dequantize(x)) -> x when both have the same parameters and the quantize clamps nothing
// that x can be, else requantize(x).
int merge_conversions(Program& program);
// conv(pad(x)) -> conv(x) with padding and padding_end.
int fold_padding(Program& program);
// clamp(f(x)) -> f(x) with post_min, post_max.
int fold_clamps(Program& program);
// f(dequantize(x), ...) -> f(x, ...) when all of f's inputs that may be integers are.
int take_integer_inputs(Program& program);
// quantize(f(x)) -> f(x) that writes integers, when f reads integers; with a requantize behind it
// where the quantize narrows the range and f has no clamp.
int write_integer_outputs(Program& program);

// dequantize(c) of constants that stayed: float constants.
int fold_dequantized_constants(Program& program);
// ProgramOp::macs of conv, conv_transpose, linear, matmul.
void count_macs(Program& program);

}  // namespace octet

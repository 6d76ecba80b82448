// Fuses quantize and dequantize ops into the ops next to them, so that the program computes on
// integers. A q/dq graph computes each op on floats, between a dequantize and a quantize:
//
//   dequantize -> conv -> clamp -> quantize -> dequantize -> max_pool -> quantize
//
// The steps below move and merge these ops until none changes anything. Here the second dequantize
// moves down through the pool and cancels with the last quantize, the clamp becomes a post-op, and
// the convolution takes over the other two conversions:
//
//   conv (reads and writes integers, post_min, post_max) -> max_pool (on integers)
//
// Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
// Inference", 2018, describe the arithmetic of such ops. Each step is exact, or within one output
// step where program.h allows it, and returns the number of its changes.
#pragma once

#include <functional>

#include "lowering/program/program.h"

namespace octet {

// Repeats the steps until none changes anything, then drops dead ops and counts
// multiply-accumulates.
void fuse(Program& program);

// ---- the steps, in the order of fuse()

// Computes quantize(c), permute(c), reshape(c), and cast(c) between f32 and f16, for constants c.
// Also dequantize(c) where no backend could use the integers (32 bits: biases).
int fold_constants(Program& program);
// Merges equal quantize or dequantize ops of one tensor.
int merge_duplicates(Program& program);
// Merges reshape(reshape(x)), permute(permute(x)) and expand(expand(x)), and removes movement that
// changes nothing.
int merge_movement(Program& program);
// matmul(a, c) -> linear(a, transposed c); add(linear(a, w), c) -> linear(a, w, c).
int make_linear(Program& program);
// 0.5 * x * (1 + tanh(...)) -> gelu_tanh(x); 0.5 * x * (1 + erf(...)) -> gelu(x).
int make_gelu(Program& program);
// x * rsqrt(mean(x * x) + eps) * weight -> rms_norm(x, weight).
int make_rms_norm(Program& program);
// x * cos + cat(-x[half:], x[:half]) * sin -> rotary(x, cos, sin).
int make_rotary(Program& program);
// move(fake_quantize_dynamic(x)) -> fake_quantize_dynamic(move(x)), for permutations that keep rows
// whole, and for reshapes where the tensor has one scale.
int sink_dynamic_quantize(Program& program);
// move(dequantize(x)) -> dequantize(move(x)); for cat if all inputs have the same scale and zero
// point.
int sink_dequantize(Program& program);
// quantize(move(x)) -> move(quantize(x)) if no other op reads either.
int hoist_quantize(Program& program);
// quantize(dequantize(x)) -> x if both have the same parameters and the quantize clamps no value
// that x can have, else requantize(x).
int merge_conversions(Program& program);
// conv(pad(x)) -> conv(x) with padding and padding_end.
int fold_padding(Program& program);
// clamp(f(x)) -> f(x) with post_min, post_max.
int fold_clamps(Program& program);
// f(dequantize(x), ...) -> f(x, ...) if all inputs of f that may be integers are integers.
int take_integer_inputs(Program& program);
// quantize(f(x)) -> f(x) that writes integers, if f reads integers. A requantize follows if the
// quantize narrows the range and f has no clamp.
int write_integer_outputs(Program& program);

// Stores each state that only index_put(state, fake_quantize_dynamic(x)) writes as int8, with a
// float32 scale for each row in another state, if that is exact: the state starts as zeros, and the
// op rounds each row symmetrically. A NaN then makes its whole row NaN. Ops that read the state get
// integers times scales.
int quantize_states(Program& program);
// softmax(scale * q @ transpose(k) + mask) @ v -> attention(q, k, v, mask) where k and v are caches
// and a backend takes it. A later pass: it needs the backends, and follows quantize_states.
int make_attention(Program& program,
                   const std::function<bool(const Program&, const ProgramOp&)>& is_taken);

// Computes dequantize(c) for the constants c that are still dequantized, which makes them float
// constants.
int fold_dequantized_constants(Program& program);
// Fills ProgramOp::macs of conv, conv_transpose, linear and matmul.
void count_macs(Program& program);

}  // namespace octet

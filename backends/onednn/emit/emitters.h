// Turns ops into steps, one emitter per op. Emitters throw Refusal or dnnl::error when oneDNN has
// no kernel.
#pragma once

#include "backends/onednn/builder/segment_builder.h"

namespace octet::onednn {

using EmitOp = void(SegmentBuilder& builder, const ProgramOp& op);

EmitOp emit_conv, emit_conv_transpose, emit_linear, emit_matmul, emit_fake_quantize_dynamic;
EmitOp emit_elementwise;  // add, sub, mul
EmitOp emit_binary;       // div, minimum, maximum
EmitOp emit_prelu, emit_clamp, emit_unary;
EmitOp emit_requantize;  // quantize, dequantize, requantize
EmitOp emit_max_pool, emit_avg_pool, emit_adaptive_avg_pool, emit_mean, emit_reduce, emit_upsample;
EmitOp emit_softmax, emit_layer_norm, emit_rms_norm, emit_group_norm, emit_batch_norm;
EmitOp emit_int16;  // ops that read or write int16, except moves
EmitOp emit_recurrent, emit_rotary, emit_attention;
EmitOp emit_reshape, emit_permute, emit_slice, emit_expand, emit_cat, emit_pad, emit_copy;

// Alternative emitters for some operands and CPUs. They return false when they do not apply.
using TryEmitOp = bool(SegmentBuilder& builder, const ProgramOp& op);

// Emits conv_transpose with byte tiles (backends/onednn/bytes/tiles.h), on CPUs where they are the
// best kernels.
TryEmitOp emit_transposed_by_byte_tiles;
// Emit a linear on integers. The segment quantizes the input at run time; the weight is stored as
// integers with a scale per row, or per group within a row.
TryEmitOp emit_dynamic_linear, emit_dynamic_group_linear;
// Whether one of them takes this weight and output on this CPU.
bool has_integer_rows(const ProgramTensor& w, const ProgramTensor& y);
// The widest row or group whose sum fits 32 bits: 255 * 128 * kMostRowWidth.
inline constexpr int64_t kMostRowWidth = 65000;
// Emits a linear on floats with weights stored as integers.
TryEmitOp emit_weight_only_linear;

}  // namespace octet::onednn

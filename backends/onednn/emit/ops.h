// How each op becomes steps. All throw Refusal or dnnl::error when the library has no kernel.
#pragma once

#include "backends/onednn/builder/segment_builder.h"

namespace octet::onednn {

void emit_conv(SegmentBuilder& builder, const ProgramOp& op);
void emit_conv_transpose(SegmentBuilder& builder, const ProgramOp& op);
// By the tiles of bytes (backends/onednn/bytes/tiles.h), on CPUs where those are the best kernels;
// false when it is in floats, or on other CPUs.
bool emit_transposed_by_byte_tiles(SegmentBuilder& builder, const ProgramOp& op);
void emit_linear(SegmentBuilder& builder, const ProgramOp& op);
void emit_matmul(SegmentBuilder& builder, const ProgramOp& op);
void emit_fake_quantize_dynamic(SegmentBuilder& builder, const ProgramOp& op);
// linear on integers, when the input was quantized at run time in here and the weight is stored as
// integers; false when it is not so.
bool emit_dynamic_linear(SegmentBuilder& builder, const ProgramOp& op);
// The same with scales for groups within a row of weights.
bool emit_dynamic_group_linear(SegmentBuilder& builder, const ProgramOp& op);
// linear on few rows of floats with weights stored as integers; false when it is not so.
bool emit_weight_only_linear(SegmentBuilder& builder, const ProgramOp& op);
void emit_elementwise(SegmentBuilder& builder, const ProgramOp& op);  // add, sub, mul
void emit_binary(SegmentBuilder& builder, const ProgramOp& op);       // div, minimum, maximum
void emit_prelu(SegmentBuilder& builder, const ProgramOp& op);
void emit_clamp(SegmentBuilder& builder, const ProgramOp& op);
void emit_unary(SegmentBuilder& builder, const ProgramOp& op);
// quantize, dequantize, requantize
void emit_requantize(SegmentBuilder& builder, const ProgramOp& op);
void emit_max_pool(SegmentBuilder& builder, const ProgramOp& op);
void emit_avg_pool(SegmentBuilder& builder, const ProgramOp& op);
void emit_adaptive_avg_pool(SegmentBuilder& builder, const ProgramOp& op);
void emit_mean(SegmentBuilder& builder, const ProgramOp& op);
void emit_reduce(SegmentBuilder& builder, const ProgramOp& op);
void emit_group_norm(SegmentBuilder& builder, const ProgramOp& op);
void emit_recurrent(SegmentBuilder& builder, const ProgramOp& op);
void emit_upsample(SegmentBuilder& builder, const ProgramOp& op);
void emit_softmax(SegmentBuilder& builder, const ProgramOp& op);
void emit_layer_norm(SegmentBuilder& builder, const ProgramOp& op);
void emit_rms_norm(SegmentBuilder& builder, const ProgramOp& op);
void emit_rotary(SegmentBuilder& builder, const ProgramOp& op);
void emit_batch_norm(SegmentBuilder& builder, const ProgramOp& op);
void emit_reshape(SegmentBuilder& builder, const ProgramOp& op);
void emit_permute(SegmentBuilder& builder, const ProgramOp& op);
void emit_slice(SegmentBuilder& builder, const ProgramOp& op);
void emit_expand(SegmentBuilder& builder, const ProgramOp& op);
void emit_cat(SegmentBuilder& builder, const ProgramOp& op);
void emit_pad(SegmentBuilder& builder, const ProgramOp& op);
void emit_copy(SegmentBuilder& builder, const ProgramOp& op);

}  // namespace octet::onednn

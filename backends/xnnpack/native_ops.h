// Lists the ops that XNNPACK runs: what is refused up front, the forms in which an op works, and
// how it is added to a subgraph.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "backends/xnnpack/form.h"
#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet::xnnpack {

class StageBuilder;

struct NativeOp {
  OpKind kind;
  // Refuses what XNNPACK's interface cannot express; everything else is proven by creating it. Runs
  // after check_activations.
  Verdict (*check)(const Program&, const ProgramOp&);
  // The forms in which the op works, preferred first. Not empty once `check` accepts.
  std::vector<Forms> (*forms)(const Program&, const ProgramOp&);
  // Adds the op to the stage. Throws Refusal.
  void (*emit)(StageBuilder&, const ProgramOp&, Forms);
};

std::span<const NativeOp> native_ops();
// Null for kinds that XNNPACK lacks.
const NativeOp* find_native_op(std::string_view kind);

// Accepts tensors that can be XNNPACK activations: f32, or 8-bit with per-tensor scale and zero
// point. Also checks shapes and attributes, as the reference does: XNNPACK trusts them.
Verdict check_activations(const Program& program, const ProgramOp& op);

// Runs all checks of an op for XNNPACK except creating it: kind, activations, and the row's check.
Verdict check_native(const Program& program, const ProgramOp& op);
// Whether XNNPACK runs an accepted op, rather than a custom kernel (custom_ops.h).
bool is_native(const Program& program, const ProgramOp& op);
// Accepts what XNNPACK or a custom kernel can run. If XNNPACK has an op of the kind, a refusal
// gives its reason.
Verdict check_op(const Program& program, const ProgramOp& op);

// Whether it is a grouped convolution with one input channel per group. Its filter has another
// layout.
bool is_depthwise(const Program& program, const ProgramOp& op);

// Zero point for XNNPACK: u8 is shifted to s8.
int32_t signed_zero_point(const ProgramTensor& tensor, size_t i = 0);

using CheckNative = Verdict(const Program&, const ProgramOp&);
CheckNative check_conv, check_conv_transpose, check_linear, check_binary, check_div, check_max_pool,
    check_avg_pool, check_adaptive_avg_pool, check_mean, check_unary, check_same_qparams, check_pad,
    check_upsample, check_conversion;

using EmitNative = void(StageBuilder&, const ProgramOp&, Forms);
EmitNative emit_conv, emit_conv_transpose, emit_linear, emit_binary, emit_max_pool, emit_avg_pool,
    emit_adaptive_avg_pool, emit_mean, emit_clamp, emit_unary, emit_reshape, emit_pad,
    emit_upsample, emit_conversion;

}  // namespace octet::xnnpack

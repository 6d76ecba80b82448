// The ops that XNNPACK runs, as a table: what is refused up front, in which forms the op works, and
// how it is written into a subgraph.
#pragma once

#include <string_view>
#include <vector>

#include "backends/xnnpack/form.h"
#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet::xnnpack {

class StageBuilder;

struct NativeOp {
  std::string_view kind;
  // Refuses what XNNPACK has no words for; what it has words for is proven by creating it.
  // Activations were checked before.
  Verdict (*check)(const Program&, const ProgramOp&);
  // The forms in which the op works, the preferred one first. Never empty once `check` accepted.
  std::vector<Forms> (*forms)(const Program&, const ProgramOp&);
  // Writes the op into the stage. Throws Refusal.
  void (*emit)(StageBuilder&, const ProgramOp&, Forms);
};

// Null for kinds that XNNPACK lacks.
const NativeOp* find_native_op(std::string_view kind);

// Accepts tensors that can be XNNPACK activations: f32, or 8-bit with per-tensor scale and zero
// point.
Verdict check_activations(const Program& program, const ProgramOp& op);

// Checks the shapes of an op whose activations check_activations accepts.
Verdict check_shapes(const Program& program, const ProgramOp& op);
// All checks of an op that XNNPACK does, but the proof: its kind, activations, shapes, and its
// row's own check.
Verdict check_native(const Program& program, const ProgramOp& op);
// Whether XNNPACK does an accepted op, and not a custom kernel (custom_ops.h).
bool is_native(const Program& program, const ProgramOp& op);
// Accepts what XNNPACK or a custom kernel does. The reason of a refusal is XNNPACK's where that has
// an op of the kind.
Verdict check_op(const Program& program, const ProgramOp& op);

// A grouped convolution with one input channel in each group; its filter has an order of its own.
bool is_depthwise(const Program& program, const ProgramOp& op);

// Zero point as XNNPACK sees it: u8 is shifted to s8.
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

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

struct OpRow {
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
const OpRow* find_op_row(std::string_view kind);

// Accepts tensors that can be XNNPACK activations: f32, or 8-bit with per-tensor scale and zero
// point.
Verdict check_activations(const Program& program, const ProgramOp& op);

// Of an op whose activations check_activations accepts.
Verdict check_shapes(const Program& program, const ProgramOp& op);
// All checks of an op that XNNPACK does, but the proof: its kind, activations, shapes, and its
// row's own check.
Verdict check_native(const Program& program, const ProgramOp& op);
// Whether XNNPACK does an accepted op; the others are ours (fallback_ops.h).
bool is_native(const Program& program, const ProgramOp& op);
// Accepts what XNNPACK does, and what we do for it. The reason of a refusal is XNNPACK's where that
// has an op of the kind.
Verdict check_op(const Program& program, const ProgramOp& op);

// A grouped convolution with one input channel in each group; its filter has an order of its own.
bool is_depthwise(const Program& program, const ProgramOp& op);

// Zero point as XNNPACK sees it: u8 is shifted to s8.
int32_t signed_zero_point(const ProgramTensor& tensor, size_t i = 0);

// checks (xnnpack_checks.cpp)
Verdict check_conv(const Program&, const ProgramOp&);
Verdict check_conv_transpose(const Program&, const ProgramOp&);
Verdict check_linear(const Program&, const ProgramOp&);
Verdict check_binary(const Program&, const ProgramOp&);
Verdict check_div(const Program&, const ProgramOp&);
Verdict check_max_pool(const Program&, const ProgramOp&);
Verdict check_avg_pool(const Program&, const ProgramOp&);
Verdict check_adaptive_avg_pool(const Program&, const ProgramOp&);
Verdict check_mean(const Program&, const ProgramOp&);
Verdict check_unary(const Program&, const ProgramOp&);
Verdict check_same_qparams(const Program&, const ProgramOp&);
Verdict check_pad(const Program&, const ProgramOp&);
Verdict check_upsample(const Program&, const ProgramOp&);
Verdict check_conversion(const Program&, const ProgramOp&);

// how each is written (xnnpack_compile_*.cpp)
void emit_conv(StageBuilder&, const ProgramOp&, Forms);
void emit_conv_transpose(StageBuilder&, const ProgramOp&, Forms);
void emit_linear(StageBuilder&, const ProgramOp&, Forms);
void emit_binary(StageBuilder&, const ProgramOp&, Forms);
void emit_max_pool(StageBuilder&, const ProgramOp&, Forms);
void emit_avg_pool(StageBuilder&, const ProgramOp&, Forms);
void emit_adaptive_avg_pool(StageBuilder&, const ProgramOp&, Forms);
void emit_mean(StageBuilder&, const ProgramOp&, Forms);
void emit_clamp(StageBuilder&, const ProgramOp&, Forms);
void emit_unary(StageBuilder&, const ProgramOp&, Forms);
void emit_reshape(StageBuilder&, const ProgramOp&, Forms);
void emit_pad(StageBuilder&, const ProgramOp&, Forms);
void emit_upsample(StageBuilder&, const ProgramOp&, Forms);
void emit_conversion(StageBuilder&, const ProgramOp&, Forms);

}  // namespace octet::xnnpack

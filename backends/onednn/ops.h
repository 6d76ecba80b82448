// Lists the ops of this backend, one row each: what it checks, and how it emits steps.
#pragma once

#include <string>

#include "backends/onednn/builder/segment_builder.h"
#include "core/base/report.h"

namespace octet::onednn {

struct OneDnnOp {
  OpKind kind;
  // cheap; the reason is for users
  Verdict (*check)(const Program& program, const ProgramOp& op);
  // throws Refusal or dnnl::error when the library has no kernel
  void (*emit)(SegmentBuilder& builder, const ProgramOp& op);
};

std::span<const OneDnnOp> onednn_ops();

// The row for the op: by its kind, or one for int16. Null when there is none.
const OneDnnOp* row_of(const Program& program, const ProgramOp& op);

// Whether there is a row for the op, its tensors have sizes that oneDNN takes, and the row's check
// accepts it.
Verdict check_op(const Program& program, const ProgramOp& op);

// Why an op of a segment cannot become steps.
struct OpRefusal {
  std::string op;  // its name
  std::string reason;
};

// Turns the ops and outputs of the segment into steps. Throws OpRefusal for an op; Refusal or
// dnnl::error while it converts the outputs.
void emit_segment(SegmentBuilder& builder, const Program& program, const Segment& segment);

}  // namespace octet::onednn

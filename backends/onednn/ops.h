// The ops of this backend: one row each, with what it checks and how it becomes steps.
#pragma once

#include <string>

#include "backends/onednn/builder/segment_builder.h"
#include "core/base/report.h"

namespace octet::onednn {

struct OneDnnOp {
  const char* kind;
  // cheap, with the reason in the user's words
  Verdict (*check)(const Program& program, const ProgramOp& op);
  // throws Refusal or dnnl::error when the library has no kernel
  void (*emit)(SegmentBuilder& builder, const ProgramOp& op);
};

// Null for an unknown kind.
const OneDnnOp* find_onednn_op(const std::string& kind);

// What keeps one op of a segment from becoming steps.
struct OpRefusal {
  std::string op;  // its name
  std::string reason;
};

// Turns the ops of the segment into steps, outputs included. Throws OpRefusal; Refusal and
// dnnl::error for what brings the outputs into their form.
void emit_segment(SegmentBuilder& builder, const Program& program, const Segment& segment);

}  // namespace octet::onednn

// Ops of a segment that XNNPACK lacks and that only move elements or look bytes up in a table, and softmax of bytes: done between two stages by ourselves, in
// whatever memory order the tensors are, so that they break no segment.
#pragma once

#include <span>
#include <variant>
#include <vector>

#include "backends/xnnpack/xnnpack_copy.h"
#include "backends/xnnpack/xnnpack_form.h"
#include "backends/xnnpack/xnnpack_softmax.h"
#include "core/report.h"
#include "lowering/program.h"

namespace octet::xnnpack {

// Accepts what is done that way; asked for what the table of XNNPACK's ops refuses. Shapes and attributes are checked too.
Verdict check_own(const Program& program, const ProgramOp& op);

// One input of the op, and what is done with its elements.
struct OwnStep {
  size_t input;
  std::variant<StridedCopy, ByteSoftmax> how;
};
// The steps that do an accepted op. from: the memory order of each input; to: that of the output.
std::vector<OwnStep> own_steps(const Program& program, const ProgramOp& op, std::span<const Order> from, Order to);

}  // namespace octet::xnnpack

// Ops of a segment that XNNPACK lacks and that only move elements or look bytes up in a table: done between two stages by copies of our own, in
// whatever memory order the tensors are, so that they break no segment.
#pragma once

#include <span>
#include <vector>

#include "backends/xnnpack/xnnpack_copy.h"
#include "backends/xnnpack/xnnpack_form.h"
#include "core/report.h"
#include "lowering/program.h"

namespace octet::xnnpack {

// Accepts what is done that way; asked for what the table of XNNPACK's ops refuses. Shapes and attributes are checked too.
Verdict check_own(const Program& program, const ProgramOp& op);

// One input of the op and where its elements go.
struct OwnCopy {
  size_t input;
  StridedCopy copy;
};
// The copies that do an accepted op. from: the memory order of each input; to: that of the output.
std::vector<OwnCopy> own_copies(const Program& program, const ProgramOp& op, std::span<const Order> from, Order to);

}  // namespace octet::xnnpack

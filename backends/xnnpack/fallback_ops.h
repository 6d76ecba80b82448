// Ops of a segment that XNNPACK lacks and that only move elements or look bytes up in a table, and
// softmax of bytes: done between two stages by ourselves, in whatever memory order the tensors are,
// so that they break no segment. Likewise linears on activations that are quantized at run time.
#pragma once

#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "backends/xnnpack/form.h"
#include "backends/xnnpack/kernels/copy.h"
#include "backends/xnnpack/kernels/row_product.h"
#include "backends/xnnpack/kernels/softmax.h"
#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet::xnnpack {

// Accepts what is done that way; asked for what the table of XNNPACK's ops refuses. Shapes and
// attributes are checked too.
Verdict check_own(const Program& program, const ProgramOp& op);

// The memory orders that an accepted op insists on: of its first input, of its output. Nothing:
// any.
struct OwnOrders {
  std::optional<Order> from;
  std::optional<Order> to;
};
OwnOrders own_orders(const ProgramOp& op);

// One input of the op, and what is done with its elements.
struct OwnStep {
  size_t input;
  std::variant<StridedCopy, ByteSoftmax, RowQuantization, RowProduct> how;
};
// The steps that do an accepted op. from: the memory order of each input; to: that of the output;
// pool: of the runs, null for one thread. Throws Refusal.
std::vector<OwnStep> own_steps(const Program& program, const ProgramOp& op,
                               std::span<const Order> from, Order to, pthreadpool_t pool);

}  // namespace octet::xnnpack

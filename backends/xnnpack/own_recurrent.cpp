// Recurrent layers as a row of fallback_ops.cpp: all steps of a direction in one call.
#include "backends/xnnpack/own_kernels.h"

namespace octet::xnnpack {

Verdict check_own_recurrent(const Program& program, const ProgramOp& op) {
  return RecurrentLayer::check(program, op);
}

std::vector<OwnStep> recurrent_steps(const Program& program, const ProgramOp& op,
                                     std::span<const Order>, Order, pthreadpool_t) {
  std::vector<size_t> inputs = {0, 3};
  if (op.outputs.size() > 1) inputs.push_back(4);  // lstm's cell state
  return {{std::move(inputs), Recurrent(program, op)}};
}

}  // namespace octet::xnnpack

// Compiles a segment into XNNPACK runtimes with copies between them.
#pragma once

#include <memory>
#include <span>

#include "lowering/program/backend.h"

namespace octet::xnnpack {

// ops: in execution order; inputs, outputs: tensor indices, as in Segment. threads: at least 1.
// Throws Refusal when XNNPACK refuses an op, and Error when it does not start.
std::unique_ptr<CompiledSegment> compile(const Program& program,
                                         std::span<const ProgramOp* const> ops,
                                         std::span<const int> inputs, std::span<const int> outputs,
                                         int threads);

}  // namespace octet::xnnpack

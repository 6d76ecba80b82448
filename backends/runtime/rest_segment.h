// Runs the part of a program after a size that only the run decides (the op `rest`) as a segment: a
// session of its body, compiled for the actual sizes. Used by CompiledProgram only.
#pragma once

#include <memory>

#include "backends/runtime/control_segment.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

// As compile_control. segment: of one op `rest`.
std::unique_ptr<CompiledSegment> compile_rest(const Program& program, const Segment& segment,
                                              const SessionOptions& options);

}  // namespace octet

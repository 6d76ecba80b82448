// Runs a branch or a loop as a segment. Its bodies are compiled programs that use the memory of the
// enclosing program and that several ops may share. Used by CompiledProgram only.
#pragma once

#include <memory>
#include <vector>

#include "backends/runtime/session_options.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

class CompiledProgram;
// By position in Program::bodies, each compiled once for all ops that run it; null: not yet
// compiled, or run by a separate session (`rest`).
using CompiledBodies = std::vector<std::unique_ptr<CompiledProgram>>;

// segment: of one control op (lowering/program/control.h) of a verified program. The program and
// the bodies must outlive the result. Throws Error as CompiledProgram does.
std::unique_ptr<CompiledSegment> compile_control(const Program& program, const Segment& segment,
                                                 const SessionOptions& options,
                                                 CompiledBodies& bodies);

// Runs the part of a program after a size that only the run decides: a session of the body,
// compiled for the actual sizes. segment: of one op `rest`.
std::unique_ptr<CompiledSegment> compile_rest(const Program& program, const Segment& segment,
                                              const SessionOptions& options);

}  // namespace octet

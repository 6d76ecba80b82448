// A branch or a loop as a segment: its bodies are compiled programs, which it runs on the memory of
// the program that it is in, and which other ops of that may run, too. Used by CompiledProgram
// only.
#pragma once

#include <memory>
#include <vector>

#include "backends/runtime/session_options.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

class CompiledProgram;
// By position in Program::bodies, each compiled once for all ops that run it; null: not yet, or run
// by a session of its own (`rest`).
using CompiledBodies = std::vector<std::unique_ptr<CompiledProgram>>;

// segment: of one control op (lowering/program/control.h) of a verified program. The program and
// the bodies must outlive the result. Throws Error as CompiledProgram does.
std::unique_ptr<CompiledSegment> compile_control(const Program& program, const Segment& segment,
                                                 const SessionOptions& options,
                                                 CompiledBodies& bodies);

}  // namespace octet

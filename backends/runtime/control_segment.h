// A branch or a loop as a segment: its bodies are compiled programs, which it runs on the memory of
// the program that it is in, and which other ops of that may run, too. Used by CompiledProgram
// only.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

struct CompileLimits {
  int threads = 1;
  // the most rounds that a loop may run, after which a run throws; 0: no limit
  size_t rounds = 0;
  std::function<void()> before_round = {};  // of a loop; may throw
  // of bodies at sizes that only a run decides: as in SessionOptions
  size_t memory = 0;
  size_t cached_shapes = 4;
};

class CompiledProgram;
// By position in Program::bodies, each compiled once for all ops that run it; null: not yet, or run
// by a session of its own (`rest`).
using CompiledBodies = std::vector<std::unique_ptr<CompiledProgram>>;

// segment: of one control op (lowering/program/control.h) of a verified program, which stays as
// long as this does, as the bodies do. Throws Error as CompiledProgram does.
std::unique_ptr<CompiledSegment> compile_control(const Program& program, const Segment& segment,
                                                 const CompileLimits& limits,
                                                 CompiledBodies& bodies);

}  // namespace octet

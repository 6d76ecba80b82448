// Branches and loops: ops that run bodies, which are programs of their own (Program::bodies). Free
// of torch.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

// What Segment::backend says of an op that the session itself runs, whose bodies run on backends.
inline constexpr const char* kControl = "control";
// How deep bodies may stand in each other.
inline constexpr size_t kDeepestBodies = 4;

bool is_control(const ProgramOp& op);  // cond, while_loop, scan
// Positions in Program::bodies.
std::vector<int64_t> bodies_of(const ProgramOp& op);

// What is wrong with the op's bodies, inputs and outputs together: counts, dtypes, shapes; "" when
// nothing is.
std::string find_control_fault(const Program& program, const ProgramOp& op);

// Throws InternalError unless each body is sound (verify), has no states and no symbol that the
// program lacks, and control ops fit their bodies and have a segment of their own.
void verify_bodies(const Program& program, size_t depth);

// Names of the backends that segments are for, those of bodies included, without kControl.
std::set<std::string> backends_of(const Program& program);

// Bodies that no op runs.
void drop_unused_bodies(Program& program);

}  // namespace octet

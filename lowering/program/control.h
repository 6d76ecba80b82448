// Finds and checks the bodies of control flow: branches and loops are ops that run other programs
// (Program::bodies).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

// What Segment::backend says of an op that the session itself runs, whose bodies run on backends.
inline constexpr const char* kControl = "control";
// How deep bodies may stand in each other.
inline constexpr size_t kDeepestBodies = 8;

bool is_control(const ProgramOp& op);  // cond, while_loop, scan, rest
// Positions in Program::bodies.
std::vector<int64_t> bodies_of(const ProgramOp& op);

// The op `rest` that runs the body; null when another op does.
const ProgramOp* find_rest(const Program& program, size_t body);
bool has_symbol(const Program& program, std::string_view name);
// Which of the inputs that a count cuts off, first in the body of a `rest`, has the symbol as its
// number of rows; nothing when none has.
std::optional<size_t> find_counted_input(const Program& body, const ProgramOp& rest,
                                         std::string_view symbol);

// What is wrong with the op's bodies, inputs and outputs together: counts, dtypes, shapes; "" when
// nothing is.
std::string find_control_fault(const Program& program, const ProgramOp& op);

// Throws InternalError unless each body is sound (verify), has no states and no symbol that the
// program lacks (but those that a `rest` counts), and control ops fit their bodies and have a
// segment of their own. Ops may share a body, but for that of a `rest`.
void verify_bodies(const Program& program, size_t depth);

// Names of the backends that segments are for, those of bodies included, without kControl.
std::set<std::string> backends_of(const Program& program);

// Bodies that no op runs.
void drop_unused_bodies(Program& program);

}  // namespace octet

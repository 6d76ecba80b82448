// Finds and checks the bodies of control flow: branches and loops are ops that run other programs,
// their bodies (Program::bodies).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

// Segment::backend of an op of control flow. The session runs the op itself, and its bodies run on
// backends.
inline constexpr const char* kControl = "control";
// How deep bodies may be nested.
inline constexpr size_t kDeepestBodies = 8;

bool is_control(const ProgramOp& op);  // cond, while_loop, scan, rest
// Positions in Program::bodies.
std::vector<int64_t> bodies_of(const ProgramOp& op);

// The op `rest` (lowering/import/rest.h) that runs the body; null if the body belongs to another
// op.
const ProgramOp* find_rest(const Program& program, size_t body);
bool has_symbol(const Program& program, std::string_view name);
// The input of a `rest` body whose number of rows is the symbol; nullopt if none is. Inputs that a
// count shortens come first in the body.
std::optional<size_t> find_counted_input(const Program& body, const ProgramOp& rest,
                                         std::string_view symbol);

// Describes a mismatch between the op and its bodies (counts, dtypes, shapes); "" if there is none.
std::string find_control_fault(const Program& program, const ProgramOp& op);

// Throws InternalError unless each body is valid (verify), has no states and no symbol that the
// program lacks (except those that a `rest` counts), and each control op fits its bodies and is
// alone in its segment. Ops may share a body, except the body of a `rest`.
void verify_bodies(const Program& program, size_t depth);

// The names of the backends of all segments, those of bodies included, without kControl.
std::set<std::string> backends_of(const Program& program);

// Removes bodies that no op runs.
void drop_unused_bodies(Program& program);

}  // namespace octet

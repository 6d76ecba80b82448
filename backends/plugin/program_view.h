// Reads the programs that a plug-in gets (octet_plugin.h) as a Program.
#pragma once

#include <string>

#include "backends/runtime/octet_plugin.h"
#include "lowering/program/program.h"

namespace octet {

// A program with one segment of `backend` that has all ops. Constants are views of the host's
// memory. Throws Error for a dtype or a type of attribute that this Octet does not know.
Program program_of(const octet_plugin_program& view, const std::string& backend);

// Why the op cannot be read as this Octet reads ops: its kind or an attribute is unknown. Empty if
// nothing is.
std::string find_unknown(const ProgramOp& op);

}  // namespace octet

// Substitutes concrete sizes for the open sizes (symbols) of a Program.
#pragma once

#include "lowering/program/program.h"

namespace octet {

// The program with every shape and attribute computed from the given values of its symbols. The
// result has no symbols, except in bodies whose sizes only a run decides (`rest`); these get the
// greatest number of rows. Constants share their memory with `program`, and `macs` stay as they
// were. `values`: one for each symbol, in its range (bind_symbols). Throws Error when a formula
// divides by zero or gives a size that no tensor can have.
Program specialize(const Program& program, const SymbolValues& values);

// "s0 = 4, s1 = 128".
std::string describe(const SymbolValues& values);

// A program of this op alone and its tensors, at the given values.
Program specialize_op(const Program& program, const ProgramOp& op, const SymbolValues& values);

}  // namespace octet

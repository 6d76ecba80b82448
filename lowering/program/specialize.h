// Substitutes concrete sizes for the open sizes (symbols) of a Program.
#pragma once

#include "lowering/program/program.h"

namespace octet {

// Returns the program with every shape and attribute computed for these values of its symbols. The
// result has no symbols, except in bodies with data-dependent sizes (`rest`), which are computed
// for the greatest number of rows. Constants share memory with `program`, and `macs` are not
// updated. `values`: one for each symbol, in its range (bind_symbols). Throws Error if a formula
// divides by zero or gives a size that no tensor can have.
Program specialize(const Program& program, const SymbolValues& values);

// "s0 = 4, s1 = 128".
std::string describe(const SymbolValues& values);

// A program with only this op and its tensors, for these values.
Program specialize_op(const Program& program, const ProgramOp& op, const SymbolValues& values);

}  // namespace octet

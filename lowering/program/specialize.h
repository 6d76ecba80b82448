// A Program at other sizes than those that it was lowered at. Free of torch.
#pragma once

#include "lowering/program/program.h"

namespace octet {

// The program with every shape and attribute at the given values of its symbols, without symbols
// but those of bodies that only a run decides (`rest`), which have as many rows as there can be;
// constants share their memory with it, `macs` stay those of the hints. `values`: one for each
// symbol, in its range (bind_symbols). Throws Error when a formula divides by zero or gives a size
// that no tensor can have.
Program specialize(const Program& program, const SymbolValues& values);

// "s0 = 4, s1 = 128".
std::string describe(const SymbolValues& values);

// The tensors and the one op of `op`, at the given values.
Program specialize_op(const Program& program, const ProgramOp& op, const SymbolValues& values);

}  // namespace octet

// Which attributes each kind of op has, and of which type: the list of program.h as data.
#pragma once

#include <string>

#include "lowering/program/program.h"

namespace octet {

// The first attribute of the op that its kind lacks or has with another type, and what the kind
// has; empty when there is none. Ops of kinds that are not in the list, and custom ops, whose
// attributes are the arguments of a call, may have any.
std::string find_attribute_fault(const ProgramOp& op);

}  // namespace octet

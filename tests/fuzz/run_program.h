// What both fuzz targets do with a program once they have one. Free of torch.
#pragma once

#include "lowering/program/program.h"

namespace octet::fuzz {

// Opens a session with little memory and runs it three times on zeros. An Error is a proper answer;
// anything else that it throws, and any read or write outside of a tensor, is a finding. Takes no
// program with custom ops, whose kernels are not ours.
void run_program(Program program);

}  // namespace octet::fuzz

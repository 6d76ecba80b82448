// Finds the tensors that cross segments.
#pragma once

#include "lowering/program/program.h"

namespace octet {

// Lists the inputs and outputs of each segment, in the order of their first use.
void connect_segments(Program& program);

}  // namespace octet

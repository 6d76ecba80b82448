// What must hold of a Program before a segment of it is compiled: it may come from a damaged or
// hostile file. Free of torch.
#pragma once

#include <cstddef>

#include "lowering/program/program.h"

namespace octet {

// Of a verified program: every op is in a segment, fits its shapes and attributes (the reference
// backend's checks, whatever backend runs it), and peak_bytes() is at most `memory_limit` (0: the
// machine's memory). Throws Error, with what to do about an op that does not fit; allocates nothing
// that a shape decides.
void check_runnable(const Program& program, size_t memory_limit,
                    const char* advice = "lower the model again");

}  // namespace octet

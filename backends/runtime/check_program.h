// Checks a Program that may come from a damaged or hostile file before a segment of it is compiled,
// and counts the memory that it will take.
#pragma once

#include <cstddef>
#include <limits>

#include "lowering/program/program.h"

namespace octet {

// A count that no memory has; what exceeds size_t is this, too.
inline constexpr size_t kNoMemory = std::numeric_limits<size_t>::max();

size_t saturating_add(size_t a, size_t b);

// The bytes that a compiled program of fixed sizes keeps: tensors between segments, intermediates
// within each segment, carried values of loops, each body once, and copies of a constant beyond the
// first.
size_t held_bytes(const Program& program);

// What a session may take: `memory_limit`, or with 0 the memory of the machine.
size_t allowed_bytes(size_t memory_limit);

// Throws Error unless every op of the verified program is in a segment and fits its shapes and
// attributes (the reference backend's checks, whichever backend runs it), and the program needs at
// most `memory_limit` bytes (0: the machine's memory). Allocates nothing that a shape decides.
void check_runnable(const Program& program, size_t memory_limit,
                    const char* advice = "lower the model again");

}  // namespace octet

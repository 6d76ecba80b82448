// Checks a Program from a possibly damaged or hostile file before its segments are compiled, and
// computes the memory that it needs.
#pragma once

#include <cstddef>
#include <limits>

#include "lowering/program/program.h"

namespace octet {

// More bytes than any memory has; also replaces sums that exceed size_t.
inline constexpr size_t kNoMemory = std::numeric_limits<size_t>::max();

size_t saturating_add(size_t a, size_t b);

// The bytes that a compiled program of fixed sizes keeps: tensors between segments, intermediates
// within each segment, carried values of loops, each body once, and additional copies of constants.
size_t held_bytes(const Program& program);

// What a session may allocate: `memory_limit`, or the machine's memory when 0.
size_t allowed_bytes(size_t memory_limit);

// Throws Error unless every op of the verified program is in a segment and fits its shapes and
// attributes (as the reference backend checks them, whichever backend runs it), and the program
// needs at most `memory_limit` bytes (0: the machine's memory). Makes no allocation whose size
// depends on a shape.
void check_runnable(const Program& program, size_t memory_limit,
                    const char* advice = "lower the model again");

}  // namespace octet

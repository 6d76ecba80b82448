// What the fuzzers do with a program once they have one. Free of torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lowering/program/program.h"

namespace octet::fuzz {

// Opens a session with little memory and runs it three times on inputs of which `seed` decides the
// elements: any floats and integers, small integers, as indices are, any bytes as bools. An Error
// is a proper answer; anything else that it throws, and any read or write outside of a tensor, is a
// finding. Takes no program with custom ops, whose kernels are not ours.
void run_program(Program program, uint32_t seed);

// The same of an .octet file's bytes.
void run_artifact(std::span<const std::byte> bytes);
// And of a program's JSON text. Constants get bytes of a pattern, so that changes of shapes and
// attributes reach the ops.
void run_program_text(const std::string& text);

// Of bytes, for `seed`.
uint32_t seed_of(std::span<const std::byte> bytes);

}  // namespace octet::fuzz

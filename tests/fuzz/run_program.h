// Runs a program that a fuzzer made. Needs no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lowering/program/program.h"

namespace octet::fuzz {

// Opens a session with little memory and runs it three times on inputs whose elements `seed`
// decides: any floats and integers, small integers (such as indices), any bytes as bools. If the
// program has states, it then runs, resets, duplicates and copies sessions in random order; a copy
// that gives other bits is a finding. An Error is correct; any other exception, and any read or
// write outside of a tensor, is a finding, too. Does not take programs with custom ops, whose
// kernels are not part of Octet.
void run_program(Program program, uint32_t seed);

// Runs the program of an .octet file, given as bytes.
void run_artifact(std::span<const std::byte> bytes);
// Runs a program given as JSON text. Its constants get a pattern of bytes, so that changes of
// shapes and attributes reach the ops.
void run_program_text(const std::string& text);

// A seed computed from bytes.
uint32_t seed_of(std::span<const std::byte> bytes);

}  // namespace octet::fuzz

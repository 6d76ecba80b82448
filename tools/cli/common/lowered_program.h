// Runs a lowered program on LibTorch's tensors, and finds its slow ops.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

#include "backends/runtime/session.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

// Runs the session once. inputs: one for each input of the exported program; those that are not
// tensors were fixed when the program was lowered, and are skipped. Outputs have new memory. Throws
// what Session::run throws.
std::vector<c10::IValue> run_session(Session& session, const std::vector<c10::IValue>& inputs);

// Outputs without None, numbers and strings, which a lowered program does not return.
std::vector<c10::IValue> only_tensors(std::vector<c10::IValue> outputs);

// Products (convolutions, linears, ...) that run many times slower on the reference kernels, or in
// float32 although the program asks for bfloat16: a line for each reason.
std::vector<std::string> slow_products(const Program& program);

// The share of the multiply-accumulates that backends, not the reference, compute with integer
// activations, also those with scales found at run time; 0 for a program without products.
// supports: those that the program was lowered for.
double integer_share(const Program& program, const Supports& supports);

// Bytes of the constants that a run reads, as a file stores them: each once, and of a table only
// the rows that are looked up.
size_t constant_bytes(const Program& program);

}  // namespace octet

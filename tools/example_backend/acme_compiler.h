// Turns ops of a program into commands for the NPU. Needs no LibTorch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "acme_device.h"
#include "lowering/program/backend.h"

namespace acme {

// The commands of one op.
struct OpQueue {
  std::string op;
  std::string unit;  // that does the work, for reports: "array"
  std::vector<Command> commands;
};

// The buffers of a segment: one per tensor of the program, then the constants that the compiler
// makes.
using Buffers = std::vector<octet::Tensor>;

// Whether the NPU runs the op: its numbers are the NPU's, and a tile of it fits into the SRAM.
octet::Verdict check_op(const octet::Program& program, const octet::ProgramOp& op);
// Requires that check_op accepts the op.
OpQueue compile_op(const octet::Program& program, const octet::ProgramOp& op, Buffers& buffers);
// The kinds of ops that check_op knows.
std::vector<std::string_view> op_kinds();

}  // namespace acme

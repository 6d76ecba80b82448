// Checks the op `recurrent` for every backend that runs it.
#pragma once

#include <string_view>

#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet {

struct RecurrentCell {
  std::string_view name;
  int64_t gates;
  bool has_state = false;  // a cell state besides the hidden state
};

// Null for an unknown cell.
const RecurrentCell* find_recurrent_cell(const ProgramOp& op);

// Accepts an op whose inputs and outputs are complete and have matching shapes.
Verdict check_recurrent(const Program& program, const ProgramOp& op);

}  // namespace octet

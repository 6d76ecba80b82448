// Lists the cells of `octet conformance`: small programs that each check one combination of op,
// dtype, granularity, shape and range.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet::conformance {

struct CellProgram {
  Program program;  // verified, without segments
  // The inputs of the runs of one session. With an open size, each run may have another.
  std::vector<std::vector<Tensor>> runs;
};

struct Cell {
  std::string name;  // "conv/odd/i8.per_channel"; unique
  std::string kind;  // of the op; "model" or "state" for programs of several ops
  std::function<CellProgram(uint32_t seed)> make;  // the same seed gives the same bits
  int threads = 1;
};

// In the order of ops.def; models and states last.
std::vector<Cell> conformance_cells();

}  // namespace octet::conformance

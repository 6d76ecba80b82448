// Small programs that together have every op: where the fuzzers start. Free of torch.
#pragma once

#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet::fuzz {

struct SeedProgram {
  std::string name;  // of its file
  Program program;
};

// For the reference, and for each other backend of this build that takes all ops of one.
std::vector<SeedProgram> seed_programs();

}  // namespace octet::fuzz

// Small programs that together have every op, from which the fuzzers start. Needs no LibTorch.
#pragma once

#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet::fuzz {

struct SeedProgram {
  std::string name;  // the name of its file
  Program program;
};

// Programs for the reference, and for each other backend of this build that accepts all their ops.
std::vector<SeedProgram> seed_programs();

}  // namespace octet::fuzz

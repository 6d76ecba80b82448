// Wrong backends that `octet conformance` must catch: the reference with one mistake each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

struct Mutant {
  const char* name;
  const char* kind;  // of the ops that it gets wrong
  // Changes the program of the cell before the reference compiles it, op 0 of which is such an op.
  std::function<void(Program&)> change = {};
  // Writes a result, computed as reals, as integers.
  std::function<int64_t(double steps, int64_t zero_point, int64_t least, int64_t most)> write = {};
  // Changes the results of run `run` of a compiled segment.
  std::function<void(std::vector<Tensor>& outputs, int run, int threads)> after = {};
};

const std::vector<Mutant>& mutants();
// Makes the backend "mutant" be this one.
void use_mutant(const Mutant& mutant);

}  // namespace octet

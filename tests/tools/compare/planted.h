// Programs that are quantized well, and faults to be planted in them.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet::test {

// A float program, the quantized one that it gives, and data.
struct Subject {
  std::string name;
  Graph reference, quantized;
  std::vector<std::vector<c10::IValue>> batches;
};

// Three of them: convolutions with batch norms and residuals for x86, the same for XNNPACK, and an
// attention block.
std::vector<Subject> make_subjects();

struct Fault {
  std::string name;
  // Of the q/dq graph or of what it was lowered to; the other one is empty. Returns the names of
  // the ops that are to blame: one, and for a tensor that several read these too.
  std::function<std::set<std::string>(Graph&)> in_graph = {};
  std::function<std::set<std::string>(Program&)> in_program = {};
};

// Faults that fit the program: each plants itself in a copy.
std::vector<Fault> faults_of(const Subject& subject, const Program& program);

}  // namespace octet::test

// Programs that are quantized well, and faults to plant in them.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet::test {

// A float program, its quantized form, and data.
struct Subject {
  std::string name;
  Graph reference, quantized;
  std::vector<std::vector<c10::IValue>> batches;
};

// Three subjects: convolutions with batch norms and residuals for x86, the same for XNNPACK, and an
// attention block.
std::vector<Subject> make_subjects();

struct Fault {
  std::string name;
  // Plants the fault in the q/dq graph or in the lowered program; the other function is empty.
  // Returns the names of the faulty ops: one, and for a shared tensor its other consumers too.
  std::function<std::set<std::string>(Graph&)> in_graph = {};
  std::function<std::set<std::string>(Program&)> in_program = {};
};

// The faults that fit the program.
std::vector<Fault> faults_of(const Subject& subject, const Program& program);

}  // namespace octet::test

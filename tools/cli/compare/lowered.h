// What lowering and a backend's kernels add: each op of a lowered program by itself, on the tensors
// of the q/dq graph that it was made of, or of another lowered program.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "annotate/calibrate/calibrate.h"
#include "annotate/compare/metric.h"
#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet {

struct LoweredOp {
  std::string name, kind, backend, module;
  std::vector<std::string> sources;  // nodes of the q/dq graph that were folded into it
  // In steps for integer outputs (quantized values without zero point), in units of the output for
  // floats. Without data for ops whose tensors the other program does not have.
  ErrorStats error = {};
  bool is_integer = false;
  // in the whole program, the fastest of some runs; 0 where the backend does not tell
  double seconds = 0;
};

struct LoweredComparison {
  std::vector<LoweredOp> ops;  // in the program's order; ops of control flow left out
  ErrorStats outputs;          // of the whole program, float outputs
};

// data: floats or integers where a program takes integers that stand for reals; each gets what it
// takes, and its outputs are compared as reals. Throws Error("compare", ...) when no op of the
// program has its tensors in the graph, when the graph is quantized and the program is not, when
// the programs take different inputs, without data, and what the backends throw.
LoweredComparison compare_lowered(const Graph& graph, const Program& program,
                                  const BatchSource& data);

// Compares two lowered programs of different backends or kinds: `program` on the tensors that
// `reference` gives op by op. That one must be without states and control flow.
LoweredComparison compare_lowered(const Program& reference, const Program& program,
                                  const BatchSource& data);

}  // namespace octet

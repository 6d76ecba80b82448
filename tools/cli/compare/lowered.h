// Measures the error that lowering and the backend's kernels add: runs each op of a lowered program
// by itself, on the tensors of the q/dq graph that it was lowered from, or of another lowered
// program.
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
  // In quantization steps for integer outputs, in units of the output for floats. Has no data for
  // ops whose tensors the other program lacks.
  ErrorStats error = {};
  bool is_integer = false;
  // in the whole program, the fastest of some runs; 0 if the backend does not report times
  double seconds = 0;
};

struct LoweredComparison {
  std::vector<LoweredOp> ops;  // in program order, without control flow
  ErrorStats outputs;          // float outputs of the whole program
};

// data: floats or integers for quantized inputs; each program gets the type that it needs, and
// outputs are compared as reals. Throws Error("compare", ...) if no op of the program has its
// tensors in the graph, if the graph is quantized and the program is not, if the programs take
// different inputs, or without data. Throws what the backends throw.
LoweredComparison compare_lowered(const Graph& graph, const Program& program,
                                  const BatchSource& data);

// Compares two lowered programs of different backends or kinds: runs each op of `program` on the
// tensors of `reference`, which must have no states and no control flow.
LoweredComparison compare_lowered(const Program& reference, const Program& program,
                                  const BatchSource& data);

}  // namespace octet

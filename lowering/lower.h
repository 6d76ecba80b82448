// Lowers a graph with quantize and dequantize ops to a Program: import, fuse, partition.
#pragma once

#include "core/base/report.h"
#include "core/graph/graph.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

enum class Fallback { kReference, kTorch, kNone };

struct LowerOptions {
  // where ops run that the backend refuses; kTorch: on the reference, and those that it has not
  // either with LibTorch (backends/torch); kNone: refuse the whole program
  Fallback fallback = Fallback::kReference;
  bool fuse = true;  // false: the graph op by op, as imported
};

// Sizes that the export left open become symbols of the program. Throws Error("lower", node, ...)
// on sizes that the inputs' shapes do not decide, and on ops that no backend knows (all of them at
// once). Each op that stays out of the backend enters `report` and Program::reasons.
Program lower(const Graph& graph, const BackendSupport& support, const LowerOptions& options,
              Report& report);

// One line per op: backend, kind, shapes and why it does not run on the wanted backend; a summary
// at the end.
std::string explain(const Program& program);

}  // namespace octet

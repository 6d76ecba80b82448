// Lowers a graph with quantize and dequantize ops to a Program: import, fuse, partition.
#pragma once

#include "core/base/report.h"
#include "core/graph/graph.h"
#include "lowering/program/backend.h"
#include "lowering/program/float_compute.h"
#include "lowering/program/program.h"

namespace octet {

enum class Fallback { kReference, kTorch, kNone };

struct LowerOptions {
  // where ops run that the backend refuses. kReference: on the reference kernels. kTorch: on the
  // same, and with LibTorch (backends/torch) if those lack the op. kNone: the program is refused
  Fallback fallback = Fallback::kReference;
  bool fuse = true;  // false: the graph op by op, as imported
  // kBfloat16: products of floats on oneDNN. Throws Error if it is not one of the backends
  FloatCompute float_compute = FloatCompute::kFloat32;
};

// Each op goes to the first backend of `supports` (make_supports("acme_npu,xnnpack")) that accepts
// it, and the ops that all refuse to the fallback. Sizes that the export left open become symbols
// of the program. Throws one Error("lower", node, ...) that lists sizes that nothing decides and
// ops that no backend has, and an Error if `supports` is empty or names a backend twice, or the
// reference with others. Each op that does not run on the first backend is listed in `report` and
// Program::reasons.
Program lower(const Graph& graph, const Supports& supports, const LowerOptions& options,
              Report& report);
// For one backend.
Program lower(const Graph& graph, const BackendSupport& support, const LowerOptions& options,
              Report& report);

// Returns a line for each op (backend, kind, shapes, and why it does not run on the first of the
// requested backends) and a summary at the end.
std::string explain(const Program& program);

}  // namespace octet

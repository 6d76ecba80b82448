// Imports a q/dq graph as a Program, op by op. Nothing is fused; quantize and dequantize stay ops.
#pragma once

#include <string>

#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet {

// Needs recorded metadata and static sizes. Views and copies become data movement or vanish;
// constants keep their storage when contiguous; buffers that the graph writes become states. Throws
// Error("lower", node, ...): a symbolic size, a write into an input, an in-place op whose effect
// others see, and ops without a meaning in program.h (all at once).
//
// keep_unknown: nodes without such a meaning become ops of kind "aten" that hold them whole
// (backends/torch), where they take and give tensors alone.
Program import_graph(const Graph& graph, bool keep_unknown = false);

// Whether ops of this target have a meaning there, or a kernel of a library's.
bool is_imported(const std::string& target);

}  // namespace octet

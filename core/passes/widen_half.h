// Rewrites programs of bfloat16 or float16 to compute in float32.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Whether an op of the program, bodies included, computes in bfloat16 or float16. Merely converting
// a tensor, such as a stored weight, does not count.
bool computes_in_half(const Graph& graph);

// Widens every bfloat16 and float16 tensor to float32: parameters, buffers and constants (exactly),
// results, and dtype arguments, in bodies too. The program's interface stays the same: half inputs
// and outputs are converted by `aten.to.dtype` at the border. Returns the number of values widened.
int widen_half(Graph& graph);

// The graph itself, or a widened copy when it computes in half precision.
class InFloat32 {
 public:
  explicit InFloat32(const Graph& graph);
  const Graph& graph() const { return copy_ ? *copy_ : *graph_; }

 private:
  const Graph* graph_;
  std::unique_ptr<Graph> copy_;
};

}  // namespace octet

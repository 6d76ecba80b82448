// Programs of bfloat16 or float16, computed in float32.
#pragma once

#include <memory>

#include "core/graph/graph.h"

namespace octet {

// Whether an op of the program, bodies included, computes in bfloat16 or float16: more than a
// conversion of a tensor, as of a stored weight.
bool computes_in_half(const Graph& graph);

// Every bfloat16 and float16 tensor becomes float32: parameters, buffers and constants (exactly),
// results, and the dtypes that ops are called with; in bodies, too. The program is called as
// before: its half inputs are converted by `aten.to.dtype` where they come in, its half outputs
// where they go out. Returns how many values were widened.
int widen_half(Graph& graph);

// A graph as it is, or a widened copy of one that computes in half precision.
class InFloat32 {
 public:
  explicit InFloat32(const Graph& graph);
  const Graph& graph() const { return copy_ ? *copy_ : *graph_; }

 private:
  const Graph* graph_;
  std::unique_ptr<Graph> copy_;
};

}  // namespace octet

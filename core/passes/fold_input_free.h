// Computes ahead what depends on no input: masks and positions that a model makes with arange,
// ones, cumsum, index, comparisons.
#pragma once

#include "core/graph/graph.h"

namespace octet {

enum class FoldFrom {
  // nodes that take no tensor (arange, ones, full, ...), and what is computed of them and constants
  kNothing,
  // also what is computed of the graph's constants alone (standardized weights, transposed tables)
  // where it is not much larger than they are
  kConstants,
};

// Folds what depends on no input; what other nodes read of it becomes a constant. Left alone:
// quantize and dequantize ops (not the choice of their scales), random numbers, results that
// something writes to, results that are no tensors, symbolic shapes. Returns the number of nodes
// folded. Throws Error("run", ...) when an op refuses its arguments.
int fold_input_free(Graph& graph, FoldFrom from = FoldFrom::kNothing);

}  // namespace octet

// Computes ahead what depends on no input: masks and positions that a model makes with arange,
// ones, cumsum, index, comparisons.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Folds the nodes that take no tensor (arange, ones, full, ...) and those that take only such
// results and constants of the graph; what others read of them becomes a constant. Left alone:
// quantize and dequantize ops, random numbers, results that something writes to, results that are
// no tensors, symbolic shapes. Returns the number of nodes folded. Throws Error("run", ...) when an
// op refuses its arguments.
int fold_input_free(Graph& graph);

}  // namespace octet

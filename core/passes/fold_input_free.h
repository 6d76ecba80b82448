// Computes in advance what does not depend on inputs: masks and positions that a model makes with
// arange, ones, cumsum, index, comparisons.
#pragma once

#include "core/graph/graph.h"

namespace octet {

enum class FoldFrom {
  // nodes that take no tensor (arange, ones, full, ...), and what is computed from them and
  // constants
  kNothing,
  // also what is computed from constants alone (standardized weights, transposed tables), unless it
  // is much larger than they are
  kConstants,
};

// Folds nodes that do not depend on inputs; values that other nodes read become constants. Not
// folded: quantize and dequantize ops (kConstants: dequantize ops whose real values, moved or not,
// others read), random numbers, and results that something writes to. Returns the number of nodes
// folded. Throws Error("run", ...) when an op refuses its arguments.
//
// symbols: null: results that are not tensors and symbolic shapes are not folded either. Otherwise
// they are computed (how many elements a mask selects, item() as a size), and `symbols` receives
// the values of their symbols, which metas elsewhere still name. Numbers become literals, and
// asserts that hold are removed.
int fold_input_free(Graph& graph, FoldFrom from = FoldFrom::kNothing,
                    std::map<std::string, int64_t>* symbols = nullptr);

}  // namespace octet

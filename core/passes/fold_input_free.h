// Computes ahead what depends on no input: masks and positions that a model makes with arange,
// ones, cumsum, index, comparisons.
#pragma once

#include <cstdint>
#include <map>
#include <string>

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
// quantize and dequantize ops (kConstants: dequantize ops of which others read the reals, moved or
// not), random numbers, results that something writes to. Returns the number of nodes folded.
// Throws Error("run", ...) when an op refuses its arguments.
//
// symbols: null leaves results that are no tensors and symbolic shapes alone, too. Otherwise they
// are computed (how many a mask selects, item() as a size), and it receives what the symbols that
// stand for them are; metas elsewhere still name those. Numbers become literals, and asserts that
// hold go.
int fold_input_free(Graph& graph, FoldFrom from = FoldFrom::kNothing,
                    std::map<std::string, int64_t>* symbols = nullptr);

}  // namespace octet

// How far the weights of a quantized program are from the float program's.
#pragma once

#include <string>
#include <vector>

#include "annotate/compare/metric.h"
#include "core/graph/graph.h"

namespace octet {

// Of one convolution, product with a constant or embedding.
struct WeightComparison {
  std::string name;  // of the subject's node
  std::string target = {}, module = {};
  int64_t axis = 0;  // the dimension of output channels (of an embedding: rows)
  ErrorStats error = {};
  // by channel: of the reference as the subject has it, folded and scaled
  std::vector<double> sqnr_db = {};
  std::vector<float> least = {}, greatest = {};
};

// Those of the subject that are dequantized or converted from float16, in its order. Batch norms
// that were folded there are folded here before, and channel factors of equalization and smoothing
// applied. Ops without twin and weights of another shape are left out. Throws what find_twins()
// throws.
std::vector<WeightComparison> compare_weights(const Graph& reference, const Graph& subject);

}  // namespace octet

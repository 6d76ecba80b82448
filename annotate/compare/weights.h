// Compares the weights of a quantized program with those of the float program.
#pragma once

#include "annotate/compare/metric.h"
#include "core/graph/graph.h"

namespace octet {

// The weight of one convolution, product with a constant, or embedding.
struct WeightComparison {
  std::string name;  // name of the subject's node
  std::string target = {}, module = {};
  int64_t axis = 0;  // the dimension of output channels (of an embedding: rows)
  ErrorStats error = {};
  // by channel, against the reference's weight folded and scaled like the subject's
  std::vector<double> sqnr_db = {};
  std::vector<float> least = {}, greatest = {};
};

// Compares the weights of the subject that are dequantized or converted from float16, in its order.
// The reference's weights are first changed as the subject's were: batch norms folded, channel
// factors of equalization and smoothing applied. Ops without a twin and weights of other shapes are
// left out. Throws what find_twins() throws.
std::vector<WeightComparison> compare_weights(const Graph& reference, const Graph& subject);

}  // namespace octet

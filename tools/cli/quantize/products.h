// The multiply-accumulates of a program: which ops make them, and how many.
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// A convolution, matrix product, attention (both of its products) or recurrent op.
struct Product {
  std::string name = {};  // of its node, as the report has it: "body.linear" within a body
  double macs = 0;        // at the sizes of the exported example; > 0
  double weights = 0;     // elements of the second factor where it is a constant
  int weight_bits = 32;   // of each of them
  bool has_integer_inputs = false;  // both factors are dequantized
  // the second one is, or is float16; of recurrent ops the weights
  bool has_integer_weights = false;
};

// The products of the graph and of the bodies of its control flow, each body as if it ran once,
// without einsum.
std::vector<Product> find_products(const Graph& graph);

}  // namespace octet

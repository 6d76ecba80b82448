// Counts the multiply-accumulates of a program by op.
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// A convolution, matrix product, attention (both products) or recurrent op.
struct Product {
  std::string name = {};            // name of its node, as in the report: "body.linear" in a body
  double macs = 0;                  // for the sizes of the example inputs; > 0
  double weights = 0;               // elements of the second factor if it is constant
  int weight_bits = 32;             // bits of each weight
  int input_bits = 32;              // bits of each element of the first factor
  bool has_integer_inputs = false;  // both factors are dequantized
  // the second factor is dequantized or float16; for recurrent ops the weights
  bool has_integer_weights = false;
};

// The products of the graph and of the bodies of its control flow, each counted once; without
// einsum.
std::vector<Product> find_products(const Graph& graph);

// The bits of each weight of a product, convolution or embedding; 32 for floats and other ops.
int weight_bits_of(const Node& node);

}  // namespace octet

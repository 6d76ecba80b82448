// What is likely to be a mistake in what `octet quantize` is given, though it can be worked with.
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/pt2/tensor_file.h"

namespace octet {

// Of calibration data: an input that holds one value in every batch, or batches that are all the
// same. One line each.
std::vector<std::string> find_odd_data(const BatchReader& data);
// Of the data that outputs are compared on: float inputs with values that calibration has not seen,
// or with a small part of its range.
std::vector<std::string> find_distant_data(const BatchReader& calibration, const BatchReader& data);
// Of a program: quantize and dequantize ops in it. A line, or nothing.
std::vector<std::string> find_quantized_ops(const Graph& graph);
// Bytes of the example inputs that torch.export.save kept with the program.
size_t example_input_bytes(const Graph& graph);
// Takes them out.
void drop_example_inputs(Graph& graph);

}  // namespace octet

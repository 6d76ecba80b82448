// Warns about models and data that are probably a mistake, though `octet quantize` can use them.
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "tools/cli/common/sample_data.h"

namespace octet {

// Warns if an input of the calibration data has one value in every batch, or if all batches are
// equal; one line each.
std::vector<std::string> find_odd_data(const SampleReader& data);
// Warns if float inputs of the evaluation data exceed the values of calibration, or cover only a
// small part of their range.
std::vector<std::string> find_distant_data(const SampleReader& calibration,
                                           const SampleReader& data);
// Warns if the program is already quantized.
std::vector<std::string> find_quantized_ops(const Graph& graph);
// The bytes of the example inputs that torch.export.save stored with the program.
size_t example_input_bytes(const Graph& graph);
void drop_example_inputs(Graph& graph);

}  // namespace octet

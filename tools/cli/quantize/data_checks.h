// Warnings about a model and data that are probably a mistake, though `octet quantize` can use
// them.
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "tools/cli/common/sample_data.h"

namespace octet {

// Calibration data with an input that holds one value in every batch, or with batches that are all
// the same; a line each.
std::vector<std::string> find_odd_data(const SampleReader& data);
// Data to compare outputs on whose float inputs have values beyond those of calibration, or only a
// small part of their range.
std::vector<std::string> find_distant_data(const SampleReader& calibration,
                                           const SampleReader& data);
// Warns if the program is already quantized.
std::vector<std::string> find_quantized_ops(const Graph& graph);
// Bytes of the example inputs that torch.export.save kept with the program.
size_t example_input_bytes(const Graph& graph);
void drop_example_inputs(Graph& graph);

}  // namespace octet

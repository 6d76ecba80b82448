// Quantizes a graph given as text to its q/dq graph, in one call.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/ivalue.h>
#include <nlohmann/json.hpp>

#include "annotate/convert/convert.h"
#include "core/graph/graph.h"

namespace octet::test {

// int8 per tensor, affine, min-max
nlohmann::ordered_json act_spec(int quant_min = -128, int quant_max = 127);
// int8 per tensor, symmetric, min-max
nlohmann::ordered_json weight_spec();
// int8 per channel of dimension 0, symmetric, min-max
nlohmann::ordered_json per_channel_weight_spec();
// int8 per tensor, affine, with scales computed at run time
nlohmann::ordered_json dynamic_spec();
// Rules for a RuleQuantizer: each linear has the specs above at its input, weight and output.
nlohmann::ordered_json linear_rules();

// Normal numbers with the shapes of the user inputs.
std::vector<c10::IValue> random_inputs(const Graph& graph, uint64_t seed = 5);
// Fills float parameters and buffers with normal numbers.
void fill_floats(Graph& graph);

// Prepares with a RuleQuantizer, calibrates on random inputs and converts. The constants
// of `graph` must be filled.
Graph quantize(Graph graph, const nlohmann::ordered_json& rules, ConvertOptions options = {});
Graph quantize(Graph graph, const nlohmann::ordered_json& rules, ConvertOptions options,
               Report& report);

// The targets in order without their namespaces, separated by spaces.
std::string targets(const Graph& graph);
// The number of nodes with the target; "PREFIX*" counts all targets with that prefix.
int count_of(const Graph& graph, std::string_view target);

}  // namespace octet::test

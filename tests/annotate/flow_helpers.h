// The way from a graph in text to its q/dq graph, in one call.
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
// likewise, a scale per index of dimension 0
nlohmann::ordered_json per_channel_weight_spec();
// int8 per tensor, affine, at run time
nlohmann::ordered_json dynamic_spec();
// Rules for a RuleQuantizer: each linear has these at its input, weight and output.
nlohmann::ordered_json linear_rules();

// Normal numbers of the user inputs' shapes.
std::vector<c10::IValue> random_inputs(const Graph& graph, uint64_t seed = 5);
// Parameters and buffers of floats become normal numbers.
void fill_floats(Graph& graph);

// Prepares with a RuleQuantizer, calibrates on random inputs and converts. `graph` has its
// constants filled.
Graph quantize(Graph graph, const nlohmann::ordered_json& rules, ConvertOptions options = {});
Graph quantize(Graph graph, const nlohmann::ordered_json& rules, ConvertOptions options,
               Report& report);

// The targets in order without their namespace, separated by blanks.
std::string targets(const Graph& graph);
// How many nodes have the target, or one that starts with it when it ends in "*".
int count_of(const Graph& graph, std::string_view target);

}  // namespace octet::test

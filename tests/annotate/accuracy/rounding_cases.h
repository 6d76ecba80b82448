// Small observed graphs, correlated data and their errors, for tests of passes over layers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

#include <nlohmann/json.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/prepare/prepare.h"

namespace octet::test {

using Batches = std::vector<std::vector<c10::IValue>>;

QuantizationSpec int8_activation();  // per tensor, affine, min-max
// int8 per channel from -quant_max to quant_max
QuantizationSpec channel_weight(int64_t quant_max, int ch_axis = 0);
// int4 per group along the last dimension
QuantizationSpec group_weight(int64_t group_size);

// Fills constants with seeded normal numbers; `act` goes to the input and `weight` to the weight of
// each linear, mm, addmm and convolution.
ObservedGraph observe_layers(const std::string& text, const std::optional<QuantizationSpec>& act,
                             const QuantizationSpec& weight);

// Prepares with a RuleQuantizer; the constants of `graph` must be filled.
ObservedGraph prepare(Graph graph, const nlohmann::ordered_json& rules);

// `count` batches of normal numbers; the first has the seed `first`.
Batches random_batches(const Graph& graph, uint64_t first, size_t count);
// `count` batches for the graph's inputs: normal numbers mixed so that the features (of `dim`)
// follow a few factors, with some noise; mean 0.5.
Batches correlated_batches(const Graph& graph, int64_t dim, size_t count, uint64_t seed = 11);
// Images [N, C, H, W] with one normal number for each channel, and some noise.
Batches smooth_batches(const Graph& graph, size_t count, uint64_t seed = 11);
BatchSource source_of(const Batches& batches);

// The first output of the float program.
at::Tensor run_float(const ObservedGraph& observed, const std::vector<c10::IValue>& batch);
// Mean squared difference of the first output of two graphs over batches.
double output_error(const Graph& want, const Graph& got, const Batches& batches);
// The float program: without observer nodes.
Graph without_points(const ObservedGraph& observed);

}  // namespace octet::test

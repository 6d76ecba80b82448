// The channels of a quantized weight.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "core/base/tensor.h"
#include "core/graph/graph.h"

namespace octet {

// What a dequantize op of the program makes of its constants. Undefined when it reads others.
Tensor dequantized_constant(const Graph& graph, const Node& dequantize);

// "weight" of a page's node: {"name", "dtype", "shape", "axis", "min", "max", "scale", "sqnr_db"}.
// One entry for each index of the axis, that of the scales, else 0; "scale" has one entry for the
// whole tensor and none for groups within a channel. original: the float weight, or undefined; then
// the ranges are those of the dequantized one, and there is no "sqnr_db". Null when the node does
// not dequantize constants.
nlohmann::ordered_json weight_json(const Graph& graph, const Node& dequantize,
                                   const std::string& name, const Tensor& original);

}  // namespace octet

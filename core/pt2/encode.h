// From the graph to the types of torch's program schema: the inverse of core/pt2/decode.h.
#pragma once

#include <string>

#include <torch/csrc/utils/generated_serialization_types.h>
#include <nlohmann/json.hpp>

#include "core/graph/graph.h"

namespace octet {

namespace schema = torch::_export;

// subject: the file that is written, for messages.
schema::Argument encode_argument(const Argument& from, const std::string& subject);
schema::TensorMeta encode_meta(const TensorMeta& from);
schema::ConstantValue encode_constant(const Argument& literal, const std::string& subject);

// Inputs, nodes, outputs and value tables, subgraphs included. Throws Error when a value has no
// TensorMeta or no symbol expression.
schema::Graph encode_graph(const Graph& from, const std::string& subject);

// Infinite floats pass through the schema's types as a finite stand-in, because their JSON code
// writes -inf as "Infinity". Puts the string "-Infinity" for each stand-in in `text`. Run on every
// JSON that comes from encode_*().
void restore_minus_infinity(nlohmann::json& text);

}  // namespace octet

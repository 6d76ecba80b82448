// From the types of torch's program schema to the graph: arguments, tensor facts, nodes, subgraphs.
#pragma once

#include <string>
#include <vector>

#include <torch/csrc/utils/generated_serialization_types.h>

#include "core/graph/graph.h"

namespace octet {

namespace schema = torch::_export;

// An argument that uses values of `graph`. where: "node 3 (aten.add.Tensor): argument \"other\"",
// for messages. Throws Error when it uses a value that is not defined yet or is of another kind, or
// holds a number the schema does not have. items: of a list of tensors; among the operands of a
// branch or a loop torch names symbols in it too.
enum class ListItems { kTensors, kOperands };
Argument decode_argument(const schema::Argument& from, const Graph& graph, const std::string& where,
                         ListItems items = ListItems::kTensors);

TensorMeta decode_meta(const schema::TensorMeta& from, const Graph& graph,
                       const std::string& where);

// What the signature says of one input. `literal_name`: of an input that is no value.
struct InputRole {
  GraphInput input;
  std::string literal_name;
};

// Appends inputs (with these roles, one each), and then nodes; the outputs are the caller's.
// graph.source must be set, for messages.
void decode_inputs(const schema::Graph& from, std::vector<InputRole> roles, Graph& graph);
void decode_nodes(const schema::Graph& from, Graph& graph);

// Graph::is_single_tensor_return, inputs, nodes and outputs of a subgraph.
std::shared_ptr<Graph> decode_subgraph(const schema::Graph& from, const std::string& source);

}  // namespace octet

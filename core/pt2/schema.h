// From the types of torch's program schema to the graph: arguments, tensor facts, nodes, subgraphs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
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

// From the graph to the types of torch's program schema: the inverse of core/pt2/decode.h.

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

// The numbers that torch's program schema gives dtypes, layouts, memory formats and argument kinds
// (its own, not c10's).

// Null for 0 (unknown) and for numbers the schema does not have.
std::optional<DType> find_dtype_by_schema(int number);
int schema_number(DType dtype);

std::optional<Layout> find_layout_by_schema(int number);
int schema_number(Layout layout);

std::optional<MemoryFormat> find_memory_format_by_schema(int number);
int schema_number(MemoryFormat format);

// What a target begins with that names a Python function; all others are ops, "torch.ops.".
bool is_function_target(const std::string& target);

}  // namespace octet

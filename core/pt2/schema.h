// Converts between the graph and the types of torch's program schema: arguments, tensor facts,
// nodes, subgraphs.
#pragma once

#include <torch/csrc/utils/generated_serialization_types.h>
#include <nlohmann/json.hpp>

#include "core/graph/graph.h"

namespace octet {

namespace schema = torch::_export;

// Decodes an argument that uses values of `graph`. where: for messages, "node 3 (aten.add.Tensor):
// argument \"other\"". Throws Error for a value that is not defined yet or of another kind, and for
// a number that the schema lacks. items: the items of a list of tensors; among the operands of a
// branch or a loop torch also puts symbols there.
enum class ListItems { kTensors, kOperands };
Argument decode_argument(const schema::Argument& from, const Graph& graph, const std::string& where,
                         ListItems items = ListItems::kTensors);

TensorMeta decode_meta(const schema::TensorMeta& from, const Graph& graph,
                       const std::string& where);

// What the signature says about an input. `literal_name`: name of an input that is not a value.
struct InputRole {
  GraphInput input;
  std::string literal_name;
};

// Appends inputs (one per role), and nodes; the caller adds the outputs. graph.source must be set,
// for messages.
void decode_inputs(const schema::Graph& from, std::vector<InputRole> roles, Graph& graph);
void decode_nodes(const schema::Graph& from, Graph& graph);

// Decodes a subgraph: Graph::is_single_tensor_return, inputs, nodes and outputs.
std::shared_ptr<Graph> decode_subgraph(const schema::Graph& from, const std::string& source);

// The inverse of the functions above.

namespace schema = torch::_export;

// T: an argument that is the name of a value, such as schema::TensorArgument.
template <typename T>
T name_argument(const Value& value) {
  T result;
  result.set_name(value.name());
  return result;
}

// subject: the file that is written, for messages.
schema::Argument encode_argument(const Argument& from, const std::string& subject);
schema::TensorMeta encode_meta(const TensorMeta& from);
schema::CustomObjArgument encode_custom_object(const Value& value);
schema::ConstantValue encode_constant(const Argument& literal, const std::string& subject);

// Encodes inputs, nodes, outputs and value tables, subgraphs included. Throws Error when a value
// has no TensorMeta or no symbol expression.
schema::Graph encode_graph(const Graph& from, const std::string& subject);

// Infinite floats are encoded as a finite stand-in, because the JSON code of the schema's types
// writes -inf as "Infinity". Replaces the stand-ins in `text` by the string "-Infinity". Call it on
// every JSON made from encode_*().
void restore_minus_infinity(nlohmann::json& text);

// Numbers of dtypes, layouts and memory formats in torch's program schema, which differ from c10's.
// Null for 0 (unknown) and for unassigned numbers.
std::optional<DType> find_dtype_by_schema(int number);
int schema_number(DType dtype);

std::optional<Layout> find_layout_by_schema(int number);
int schema_number(Layout layout);

std::optional<MemoryFormat> find_memory_format_by_schema(int number);
int schema_number(MemoryFormat format);

// Whether the target names a Python function; all others are ops, "torch.ops.".
bool is_function_target(const std::string& target);

}  // namespace octet

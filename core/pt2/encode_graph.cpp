// Encodes a graph's inputs, nodes, outputs and value tables.

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/pt2/schema.h"

namespace octet {
namespace {

std::string encode_target(const std::string& target) {
  return is_function_target(target) ? target : "torch.ops." + target;
}

schema::SymExprHint encode_hint(const Value& value) {
  schema::SymExprHint hint;
  if (value.kind() == ValueKind::kSymInt) {
    hint.set_as_int(value.symbol_hint);
  } else if (value.kind() == ValueKind::kSymBool) {
    hint.set_as_bool(value.symbol_hint != 0);
  } else {
    schema::F64 number;
    number.set(value.symbol_hint_float);
    hint.set_as_float(number);
  }
  return hint;
}

// The value tables, filled while the graph is visited.
struct Tables {
  std::unordered_map<std::string, schema::TensorMeta> tensors;
  std::unordered_map<std::string, schema::SymInt> sym_ints;
  std::unordered_map<std::string, schema::SymFloat> sym_floats;
  std::unordered_map<std::string, schema::SymBool> sym_bools;
  const std::string& subject;

  void add(const Value& value) {
    switch (value.kind()) {
      case ValueKind::kTensor:
        if (!value.meta)
          throw Error("pt2", subject,
                      fmt::format("%{} has no dtype and sizes, want them on every value of a "
                                  "program that is written",
                                  value.name()));
        tensors[value.name()] = encode_meta(*value.meta);
        break;
      case ValueKind::kSymInt:
        if (!add_expression(value, sym_ints)) sym_ints[value.name()].set_as_int(value.symbol_hint);
        break;
      case ValueKind::kSymBool:
        if (!add_expression(value, sym_bools))
          sym_bools[value.name()].set_as_bool(value.symbol_hint != 0);
        break;
      case ValueKind::kSymFloat:
        if (!add_expression(value, sym_floats)) {
          schema::F64 number;
          number.set(value.symbol_hint_float);
          sym_floats[value.name()].set_as_float(number);
        }
        break;
      case ValueKind::kToken:
        if (value.meta) tensors[value.name()] = encode_meta(*value.meta);
        break;
      default: break;
    }
  }

 private:
  template <typename Table>
  bool add_expression(const Value& value, Table& table) const {
    if (value.symbol.empty() && !value.has_symbol_hint)
      throw Error("pt2", subject,
                  fmt::format("%{} has neither a symbol nor a number, want one on every symbolic "
                              "value of a program that is written",
                              value.name()));
    if (value.symbol.empty()) return false;
    schema::SymExpr expression;
    expression.set_expr_str(value.symbol);
    if (value.has_symbol_hint) expression.set_hint(std::optional(encode_hint(value)));
    table[value.name()].set_as_expr(std::move(expression));
    return true;
  }
};

schema::Argument encode_result(const ResultSlot& slot, const std::string& subject) {
  switch (slot.kind) {
    case ResultSlot::Kind::kSingle: return encode_argument(slot.values.front(), subject);
    case ResultSlot::Kind::kList: return encode_argument(slot.values, subject);
    case ResultSlot::Kind::kOptionalList:
      return encode_argument(OptionalTensors{slot.values}, subject);
    case ResultSlot::Kind::kLiteral: return encode_argument(slot.literal, subject);
  }
  OCTET_ASSERT(false, "unknown kind of result slot");
}

schema::Node encode_node(const Node& from, const std::string& subject) {
  std::vector<schema::NamedArgument> inputs;
  for (const NamedArgument& argument : from.arguments()) {
    schema::NamedArgument named;
    named.set_name(argument.name);
    named.set_arg(encode_argument(argument.value, subject));
    if (argument.kind != ArgumentKind::kUnknown)
      named.set_kind(std::optional<int64_t>(static_cast<int64_t>(argument.kind)));
    inputs.push_back(std::move(named));
  }
  std::vector<schema::Argument> outputs;
  for (const ResultSlot& slot : from.results()) outputs.push_back(encode_result(slot, subject));
  schema::Node node;
  node.set_target(encode_target(from.target()));
  node.set_inputs(std::move(inputs));
  node.set_outputs(std::move(outputs));
  node.set_metadata(
      std::unordered_map<std::string, std::string>(from.metadata.begin(), from.metadata.end()));
  node.set_is_hop_single_tensor_return(from.is_hop_single_tensor_return);
  node.set_name(std::optional(from.name()));
  return node;
}

}  // namespace

schema::Graph encode_graph(const Graph& from, const std::string& subject) {
  Tables tables{
      .tensors = {}, .sym_ints = {}, .sym_floats = {}, .sym_bools = {}, .subject = subject};
  std::vector<schema::Argument> inputs;
  for (const GraphInput& input : from.inputs()) {
    tables.add(*input.value);
    inputs.push_back(encode_argument(
        input.value->kind() == ValueKind::kNone ? input.constant : Argument(input.value), subject));
  }
  std::vector<schema::Node> nodes;
  for (const Node* node : from.nodes()) {
    nodes.push_back(encode_node(*node, subject));
    for (const Value* value : node->outputs()) tables.add(*value);
  }
  std::vector<schema::Argument> outputs;
  for (const GraphOutput& output : from.outputs())
    outputs.push_back(encode_argument(output.value, subject));
  schema::Graph graph;
  graph.set_inputs(std::move(inputs));
  graph.set_nodes(std::move(nodes));
  graph.set_outputs(std::move(outputs));
  graph.set_tensor_values(std::move(tables.tensors));
  graph.set_sym_int_values(std::move(tables.sym_ints));
  graph.set_sym_float_values(std::move(tables.sym_floats));
  graph.set_sym_bool_values(std::move(tables.sym_bools));
  graph.set_is_single_tensor_return(from.is_single_tensor_return);
  return graph;
}

}  // namespace octet

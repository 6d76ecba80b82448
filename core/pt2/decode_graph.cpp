// Decodes a graph's inputs, nodes and subgraphs, with the facts in the value tables.

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/pt2/schema.h"

namespace octet {
namespace {

using Tag = schema::Argument::Tag;

constexpr std::string_view kOpPrefix = "torch.ops.";

// Defines values of `graph` by name, from the tables of the file.
class ValueTables {
 public:
  ValueTables(const schema::Graph& from, Graph& graph) : from_(from), graph_(graph) {}

  std::optional<TensorMeta> meta(const std::string& name) const {
    const auto found = from_.get_tensor_values().find(name);
    if (found == from_.get_tensor_values().end()) return std::nullopt;
    return decode_meta(found->second, graph_, "%" + name);
  }
  // Throws when the name is defined already.
  const std::string& fresh(const std::string& name, const std::string& where) const {
    if (name.empty())
      throw Error("pt2", graph_.source,
                  where + ": defines a value without a name; the file is damaged");
    if (graph_.find_value(name) != nullptr)
      throw Error("pt2", graph_.source,
                  fmt::format("{}: defines %{} a second time; the file is damaged", where, name));
    return name;
  }
  // Expression and hint of a symbol.
  void describe_symbol(Value& value) const {
    switch (value.kind()) {
      case ValueKind::kSymInt: describe(value, from_.get_sym_int_values()); break;
      case ValueKind::kSymFloat: describe(value, from_.get_sym_float_values()); break;
      case ValueKind::kSymBool: describe(value, from_.get_sym_bool_values()); break;
      default: break;
    }
  }

 private:
  static void set_hint(Value& value, int64_t hint) { value.symbol_hint = hint; }
  static void set_hint(Value& value, bool hint) { value.symbol_hint = hint ? 1 : 0; }
  static void set_hint(Value& value, const schema::F64& hint) {
    value.symbol_hint_float = hint.get();
  }
  static int64_t plain(const schema::SymInt& from) { return from.get_as_int(); }
  static bool plain(const schema::SymBool& from) { return from.get_as_bool(); }
  static schema::F64 plain(const schema::SymFloat& from) { return from.get_as_float(); }

  template <typename Table>
  static void describe(Value& value, const Table& table) {
    const auto found = table.find(value.name());
    if (found == table.end()) return;
    using Symbol = typename Table::mapped_type;
    if (found->second.tag() != Symbol::Tag::AS_EXPR) {
      value.has_symbol_hint = true;
      set_hint(value, plain(found->second));
      return;
    }
    const schema::SymExpr& expression = found->second.get_as_expr();
    value.symbol = expression.get_expr_str();
    if (!expression.get_hint()) return;
    value.has_symbol_hint = true;
    switch (expression.get_hint()->tag()) {
      case schema::SymExprHint::Tag::AS_INT:
        set_hint(value, expression.get_hint()->get_as_int());
        break;
      case schema::SymExprHint::Tag::AS_BOOL:
        set_hint(value, expression.get_hint()->get_as_bool());
        break;
      case schema::SymExprHint::Tag::AS_FLOAT:
        set_hint(value, expression.get_hint()->get_as_float());
        break;
    }
  }

  const schema::Graph& from_;
  Graph& graph_;
};

// Name and kind of the value that an argument defines, as an input or a single result; nothing for
// literals.
std::optional<std::pair<std::string, ValueKind>> defined_value(const schema::Argument& from) {
  switch (from.tag()) {
    case Tag::AS_TENSOR: return {{from.get_as_tensor().get_name(), ValueKind::kTensor}};
    case Tag::AS_CUSTOM_OBJ: return {{from.get_as_custom_obj().get_name(), ValueKind::kCustomObj}};
    case Tag::AS_SYM_INT:
      if (from.get_as_sym_int().tag() != schema::SymIntArgument::Tag::AS_NAME) return std::nullopt;
      return {{from.get_as_sym_int().get_as_name(), ValueKind::kSymInt}};
    case Tag::AS_SYM_FLOAT:
      if (from.get_as_sym_float().tag() != schema::SymFloatArgument::Tag::AS_NAME)
        return std::nullopt;
      return {{from.get_as_sym_float().get_as_name(), ValueKind::kSymFloat}};
    case Tag::AS_SYM_BOOL:
      if (from.get_as_sym_bool().tag() != schema::SymBoolArgument::Tag::AS_NAME)
        return std::nullopt;
      return {{from.get_as_sym_bool().get_as_name(), ValueKind::kSymBool}};
    default: return std::nullopt;
  }
}

void finish_value(Value& value, const schema::Argument& from, const ValueTables& tables) {
  tables.describe_symbol(value);
  if (from.tag() == Tag::AS_CUSTOM_OBJ) value.class_fqn = from.get_as_custom_obj().get_class_fqn();
}

std::string decode_target(const std::string& target, const Graph& graph, const std::string& where) {
  if (target.starts_with(kOpPrefix)) return target.substr(kOpPrefix.size());
  if (!is_function_target(target))
    throw Error("pt2", graph.source,
                fmt::format("{}: target \"{}\" is neither torch.ops.* nor a function on symbols",
                            where, target));
  return target;
}

void decode_list_result(const std::vector<schema::TensorArgument>& from, Graph& graph, Node& node,
                        const ValueTables& tables, const std::string& where) {
  std::vector<std::string> names;
  std::vector<std::optional<TensorMeta>> metas;
  for (const schema::TensorArgument& tensor : from) {
    names.push_back(tables.fresh(tensor.get_name(), where));
    metas.push_back(tables.meta(tensor.get_name()));
  }
  graph.add_list_result(node, std::move(names), std::move(metas));
}

void decode_optional_list_result(const std::vector<schema::OptionalTensorArgument>& from,
                                 Graph& graph, Node& node, const ValueTables& tables,
                                 const std::string& where) {
  std::vector<std::optional<std::string>> names;
  std::vector<std::optional<TensorMeta>> metas;
  for (const schema::OptionalTensorArgument& item : from) {
    const bool is_tensor = item.tag() == schema::OptionalTensorArgument::Tag::AS_TENSOR;
    names.push_back(is_tensor ? std::optional(tables.fresh(item.get_as_tensor().get_name(), where))
                              : std::nullopt);
    metas.push_back(is_tensor ? tables.meta(item.get_as_tensor().get_name()) : std::nullopt);
  }
  graph.add_optional_list_result(node, names, std::move(metas));
}

void decode_result(const schema::Argument& from, Graph& graph, Node& node,
                   const ValueTables& tables, const std::string& where) {
  if (from.tag() == Tag::AS_TENSORS)
    return decode_list_result(from.get_as_tensors(), graph, node, tables, where);
  if (from.tag() == Tag::AS_OPTIONAL_TENSORS)
    return decode_optional_list_result(from.get_as_optional_tensors(), graph, node, tables, where);
  const std::optional<std::pair<std::string, ValueKind>> value = defined_value(from);
  if (value) {
    std::optional<TensorMeta> meta =
        value->second == ValueKind::kTensor ? tables.meta(value->first) : std::nullopt;
    finish_value(
        *graph.add_result(node, tables.fresh(value->first, where), std::move(meta), value->second),
        from, tables);
    return;
  }
  Argument literal = decode_argument(from, graph, where);
  bool holds_values = std::holds_alternative<Subgraph>(literal);
  for_each_value(literal, [&](Value*) { holds_values = true; });
  if (holds_values)
    throw Error("pt2", graph.source,
                where +
                    ": has a kind that no op returns, want tensors, symbols or literals; the "
                    "file is damaged");
  graph.add_literal_result(node, std::move(literal));
}

ArgumentKind decode_kind(const std::optional<int64_t>& kind, const Graph& graph,
                         const std::string& where) {
  if (!kind) return ArgumentKind::kUnknown;
  if (*kind < 0 || *kind > static_cast<int64_t>(ArgumentKind::kKeyword))
    throw Error("pt2", graph.source,
                fmt::format("{}: unknown argument kind, got {}, want 0 to 2; the file is damaged",
                            where, *kind));
  return static_cast<ArgumentKind>(*kind);
}

void decode_node(const schema::Node& from, size_t index, Graph& graph, const ValueTables& tables) {
  const std::string where = fmt::format("node {} ({})", index, from.get_target());
  const ListItems items = from.get_target().starts_with("torch.ops.higher_order.")
                              ? ListItems::kOperands
                              : ListItems::kTensors;
  std::vector<NamedArgument> arguments;
  for (const schema::NamedArgument& argument : from.get_inputs()) {
    const std::string slot = fmt::format("{}: argument \"{}\"", where, argument.get_name());
    arguments.push_back({argument.get_name(),
                         decode_argument(argument.get_arg(), graph, slot, items),
                         decode_kind(argument.get_kind(), graph, slot)});
  }
  // Files before schema 8.8 do not name their nodes: uses the first result's name.
  const std::optional<std::pair<std::string, ValueKind>> first =
      from.get_outputs().empty() ? std::nullopt : defined_value(from.get_outputs().front());
  const std::string name = from.get_name() ? *from.get_name()
                           : first         ? first->first
                                           : fmt::format("node_{}", index);
  if (graph.find_node(name) != nullptr)
    throw Error("pt2", graph.source,
                fmt::format("{}: a second node is named \"{}\"; the file is damaged", where, name));
  Node* node =
      graph.add_node(decode_target(from.get_target(), graph, where), std::move(arguments), name);
  node->metadata = {from.get_metadata().begin(), from.get_metadata().end()};
  node->is_hop_single_tensor_return = from.get_is_hop_single_tensor_return();
  for (size_t i = 0; i < from.get_outputs().size(); ++i)
    decode_result(from.get_outputs()[i], graph, *node, tables,
                  fmt::format("{}: result {}", where, i));
}

}  // namespace

void decode_inputs(const schema::Graph& from, std::vector<InputRole> roles, Graph& graph) {
  if (roles.size() != from.get_inputs().size())
    throw Error(
        "pt2", graph.source,
        fmt::format(
            "the signature has {} inputs and the graph {}, want equal numbers; the file is damaged",
            roles.size(), from.get_inputs().size()));
  const ValueTables tables(from, graph);
  for (size_t i = 0; i < roles.size(); ++i) {
    const schema::Argument& argument = from.get_inputs()[i];
    const std::string where = fmt::format("input {}", i);
    const std::optional<std::pair<std::string, ValueKind>> value = defined_value(argument);
    if (!value) {
      roles[i].input.constant = decode_argument(argument, graph, where);
      bool holds_values = std::holds_alternative<Subgraph>(roles[i].input.constant);
      for_each_value(roles[i].input.constant, [&](Value*) { holds_values = true; });
      if (holds_values)
        throw Error("pt2", graph.source,
                    where + ": is neither one value nor a literal; the file is damaged");
      graph.add_input(std::move(roles[i].input), tables.fresh(roles[i].literal_name, where),
                      ValueKind::kNone, std::nullopt);
      continue;
    }
    std::optional<TensorMeta> meta =
        value->second == ValueKind::kTensor ? tables.meta(value->first) : std::nullopt;
    const ValueKind kind =
        roles[i].input.kind == InputKind::kToken ? ValueKind::kToken : value->second;
    finish_value(*graph.add_input(std::move(roles[i].input), tables.fresh(value->first, where),
                                  kind, std::move(meta)),
                 argument, tables);
  }
}

void decode_nodes(const schema::Graph& from, Graph& graph) {
  const ValueTables tables(from, graph);
  for (size_t i = 0; i < from.get_nodes().size(); ++i)
    decode_node(from.get_nodes()[i], i, graph, tables);
}

std::shared_ptr<Graph> decode_subgraph(const schema::Graph& from, const std::string& source) {
  auto graph = std::make_shared<Graph>();
  graph->source = source;
  graph->is_single_tensor_return = from.get_is_single_tensor_return();
  std::vector<InputRole> roles(from.get_inputs().size());
  for (size_t i = 0; i < roles.size(); ++i) roles[i].literal_name = fmt::format("literal_{}", i);
  decode_inputs(from, std::move(roles), *graph);
  decode_nodes(from, *graph);
  for (size_t i = 0; i < from.get_outputs().size(); ++i)
    graph->add_output({decode_argument(from.get_outputs()[i], *graph, fmt::format("output {}", i)),
                       OutputKind::kUserOutput, ""});
  return graph;
}

}  // namespace octet

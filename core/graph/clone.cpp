// Deep copies.
#include "core/graph/copy_node.h"
#include "core/graph/graph.h"

namespace octet {
namespace {

// Copies nested subgraphs so that a clone shares no mutable part with its original.
void clone_subgraphs(Argument& argument) {
  if (Subgraph* subgraph = std::get_if<Subgraph>(static_cast<ArgumentVariant*>(&argument))) {
    subgraph->graph = clone(*subgraph->graph);
  } else if (ArgumentMap* map =
                 std::get_if<ArgumentMap>(static_cast<ArgumentVariant*>(&argument))) {
    for (auto& [key, item] : map->items) {
      item = std::make_shared<Argument>(*item);
      clone_subgraphs(*item);
    }
  }
}

std::string free_name(const Graph& graph, const std::string& name) {
  return graph.find_value(name) == nullptr ? name : graph.fresh_name(name);
}

void clone_results(const Node& from, Node& to, Graph& graph,
                   std::unordered_map<const Value*, Value*>& map) {
  for (const ResultSlot& slot : from.results()) {
    std::vector<std::optional<std::string>> names;
    std::vector<std::optional<TensorMeta>> metas;
    for (const Value* value : slot.values) {
      names.push_back(value == nullptr ? std::nullopt
                                       : std::optional(free_name(graph, value->name())));
      metas.push_back(value == nullptr ? std::nullopt : value->meta);
    }
    switch (slot.kind) {
      case ResultSlot::Kind::kSingle:
        graph.add_result(to, *names.front(), metas.front(), slot.values.front()->kind());
        break;
      case ResultSlot::Kind::kList: {
        std::vector<std::string> plain;
        for (const auto& name : names) plain.push_back(*name);
        graph.add_list_result(to, plain, metas);
        break;
      }
      case ResultSlot::Kind::kOptionalList:
        graph.add_optional_list_result(to, names, metas);
        break;
      case ResultSlot::Kind::kLiteral:
        graph.add_literal_result(to, slot.literal);
        break;
    }
    for (size_t i = 0; i < slot.values.size(); ++i)
      if (slot.values[i] != nullptr)
        map[slot.values[i]] = clone_value_facts(*slot.values[i], to.results().back().values[i]);
  }
}

}  // namespace

Value* clone_value_facts(const Value& from, Value* to) {
  to->symbol = from.symbol;
  to->symbol_hint = from.symbol_hint;
  to->symbol_hint_float = from.symbol_hint_float;
  to->has_symbol_hint = from.has_symbol_hint;
  to->class_fqn = from.class_fqn;
  return to;
}

Node* copy_node(const Node& node, Graph& graph, std::unordered_map<const Value*, Value*>& map,
                Node* before) {
  std::vector<NamedArgument> arguments;
  for (const NamedArgument& argument : node.arguments()) {
    arguments.push_back(argument);
    rewrite_values(arguments.back().value, [&](Value* value) { return map.at(value); });
    clone_subgraphs(arguments.back().value);
  }
  Node* twin = graph.add_node(node.target(), std::move(arguments), node.name(), before);
  twin->metadata = node.metadata;
  twin->is_hop_single_tensor_return = node.is_hop_single_tensor_return;
  clone_results(node, *twin, graph, map);
  return twin;
}

std::unique_ptr<Graph> clone(const Graph& graph,
                             std::unordered_map<const Value*, Value*>* mapping) {
  auto copy = std::make_unique<Graph>();
  std::unordered_map<const Value*, Value*> map;
  const auto mapped = [&](Argument argument) {
    rewrite_values(argument, [&](Value* value) { return map.at(value); });
    clone_subgraphs(argument);
    return argument;
  };
  for (GraphInput input : graph.inputs()) {
    const Value& old = *input.value;
    map[&old] = clone_value_facts(old, copy->add_input(input, old.name(), old.kind(), old.meta));
  }
  for (const Node* node : graph.nodes()) copy_node(*node, *copy, map);
  for (GraphOutput output : graph.outputs()) {
    output.value = mapped(output.value);
    copy->add_output(std::move(output));
  }
  copy->constants = graph.constants;
  copy->range_constraints = graph.range_constraints;
  copy->extras = graph.extras;
  copy->source = graph.source;
  copy->is_single_tensor_return = graph.is_single_tensor_return;
  if (mapping != nullptr) *mapping = std::move(map);
  return copy;
}

}  // namespace octet

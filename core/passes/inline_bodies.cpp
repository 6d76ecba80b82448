#include "core/passes/inline_bodies.h"

#include <algorithm>
#include <unordered_map>

namespace octet {
namespace {

struct WrapperRow {
  const char* target;
  size_t body;   // its argument
  size_t first;  // argument behind it that is an operand
};

constexpr WrapperRow kWrappers[] = {
    {"higher_order.wrap_with_set_grad_enabled", 1, 2},
    {"higher_order.invoke_subgraph",            0, 2},
};

using Values = std::unordered_map<const Value*, Value*>;

// Null where the node is no such call.
const Graph* find_body(const Node& node, std::vector<Value*>& operands) {
  for (const WrapperRow& row : kWrappers) {
    if (node.target() != row.target || node.arguments().size() < row.first) continue;
    const Subgraph* body = node.arguments()[row.body].value.find<Subgraph>();
    for (size_t i = row.first; i < node.arguments().size(); ++i)
      operands.push_back(node.arguments()[i].value.value_or_null());
    const bool has_gap = std::find(operands.begin(), operands.end(), nullptr) != operands.end();
    if (body == nullptr || body->graph == nullptr || has_gap ||
        body->graph->inputs().size() != operands.size())
      return nullptr;
    return body->graph.get();
  }
  return nullptr;
}

// Results under fresh names.
void add_results(Graph& graph, const Node& from, Node& to, Values& map) {
  for (const ResultSlot& slot : from.results()) {
    std::vector<std::string> names;
    std::vector<std::optional<TensorMeta>> metas;
    for (const Value* value : slot.values) {
      names.push_back(graph.fresh_name(value->name()));
      metas.push_back(value->meta);
    }
    if (slot.kind == ResultSlot::Kind::kLiteral)
      graph.add_literal_result(to, slot.literal);
    else if (slot.kind == ResultSlot::Kind::kSingle)
      graph.add_result(to, names[0], metas[0], slot.values[0]->kind());
    else
      graph.add_list_result(to, names, metas);
    for (size_t i = 0; i < slot.values.size(); ++i) {
      Value* copy = to.results().back().values[i];
      copy->symbol = slot.values[i]->symbol;
      copy->symbol_hint = slot.values[i]->symbol_hint;
      copy->has_symbol_hint = slot.values[i]->has_symbol_hint;
      map[slot.values[i]] = copy;
    }
  }
}

bool has_gaps(const Graph& body) {
  for (const Node* node : body.nodes())
    for (const ResultSlot& slot : node->results())
      if (slot.kind == ResultSlot::Kind::kOptionalList) return true;
  return false;
}

bool gives_values(const Graph& body, size_t count) {
  return body.outputs().size() == count &&
         std::all_of(body.outputs().begin(), body.outputs().end(), [](const GraphOutput& output) {
           return output.value.value_or_null() != nullptr;
         });
}

bool inline_call(Graph& graph, Node& call) {
  std::vector<Value*> operands;
  const Graph* body = find_body(call, operands);
  const std::vector<Value*> results = call.outputs();
  if (body == nullptr || has_gaps(*body) || !gives_values(*body, results.size())) return false;
  const std::unique_ptr<Graph> copy = clone(*body);
  Values map;
  for (size_t k = 0; k < operands.size(); ++k) map[copy->inputs()[k].value] = operands[k];
  for (const Node* node : copy->nodes()) {
    std::vector<NamedArgument> arguments = node->arguments();
    for (NamedArgument& argument : arguments)
      rewrite_values(argument.value, [&](Value* value) { return map.at(value); });
    Node* twin = graph.add_node(node->target(), std::move(arguments), node->name(), &call);
    twin->metadata = node->metadata;
    add_results(graph, *node, *twin, map);
  }
  for (size_t k = 0; k < results.size(); ++k)
    graph.replace_uses(results[k], map.at(copy->outputs()[k].value.value_or_null()));
  graph.erase(call);
  return true;
}

}  // namespace

int inline_bodies(Graph& graph) {
  int count = 0;
  for (bool again = true; again;) {
    again = false;
    for (Node* node : graph.nodes())
      if (inline_call(graph, *node)) {
        ++count;
        again = true;
      }
  }
  return count;
}

}  // namespace octet

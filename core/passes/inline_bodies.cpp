#include "core/passes/inline_bodies.h"

#include <array>
#include <unordered_map>

#include "core/graph/copy_node.h"

namespace octet {
namespace {

struct CallRow {
  std::string_view target;
  size_t body, first_operand;  // positions among the arguments
};

constexpr std::array<CallRow, 3> kCalls = {{{"higher_order.wrap_with_set_grad_enabled", 1, 2},
                                            {"higher_order.wrap_with_autocast", 4, 5},
                                            {"higher_order.invoke_subgraph", 0, 2}}};

// wrap_with_autocast(device, dtype, enabled, cache_enabled, body, *operands)
bool has_autocast(const Node& node) {
  if (node.target() != "higher_order.wrap_with_autocast" || node.arguments().size() < 5)
    return false;
  const bool* enabled = node.arguments()[2].value.find<bool>();
  return enabled == nullptr || *enabled;
}

const CallRow* find_row(const Node& node) {
  for (const CallRow& row : kCalls)
    if (node.target() == row.target) return &row;
  return nullptr;
}

Graph* find_body(const Node& node, const CallRow& row) {
  if (node.arguments().size() < row.first_operand) return nullptr;
  const Subgraph* body = node.arguments()[row.body].value.find<Subgraph>();
  return body == nullptr ? nullptr : body->graph.get();
}

using ValueMap = std::unordered_map<const Value*, Value*>;

// The operands for the body's inputs; false when they are not values one by one.
bool bind_operands(const Node& node, const CallRow& row, const Graph& body, ValueMap& map) {
  const std::vector<GraphInput>& inputs = body.inputs();
  if (node.arguments().size() != row.first_operand + inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value* const* operand = node.arguments()[row.first_operand + i].value.find<Value*>();
    if (operand == nullptr || inputs[i].kind != InputKind::kUserInput) return false;
    map[inputs[i].value] = *operand;
  }
  return true;
}

bool inline_call(Graph& graph, Node& node, const CallRow& row) {
  Graph* body = find_body(node, row);
  ValueMap map;
  if (body == nullptr || has_autocast(node) || !bind_operands(node, row, *body, map)) return false;
  const std::vector<Value*> results = node.outputs();
  const std::vector<GraphOutput>& outputs = body->outputs();
  if (results.size() != outputs.size()) return false;
  for (const GraphOutput& output : outputs)
    if (output.value.find<Value*>() == nullptr) return false;
  for (const Node* inner : body->nodes()) copy_node(*inner, graph, map, &node);
  for (size_t i = 0; i < results.size(); ++i)
    graph.replace_uses(results[i], map.at(*outputs[i].value.find<Value*>()));
  graph.erase(node);
  return true;
}

}  // namespace

int inline_bodies(Graph& graph) {
  int calls = 0;
  for (bool found = true; found;) {  // bodies may have calls in them
    found = false;
    for (Node* node : graph.nodes()) {
      const CallRow* row = find_row(*node);
      if (row == nullptr || !inline_call(graph, *node, *row)) continue;
      ++calls;
      found = true;
    }
  }
  return calls;
}

}  // namespace octet

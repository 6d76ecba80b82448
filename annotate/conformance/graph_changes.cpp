#include "annotate/conformance/graph_changes.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/passes/simplify.h"

namespace octet {
namespace {

std::vector<Value*> values_of(const Graph& graph) {
  std::vector<Value*> values;
  for (const GraphInput& input : graph.inputs())
    if (input.value != nullptr) values.push_back(input.value);
  for (const Node* node : graph.nodes())
    for (Value* output : node->outputs())
      if (output != nullptr) values.push_back(output);
  return values;
}

// Moves the nodes of [begin, end) before `after`, in a random order.
void shuffle(Graph& graph, const std::vector<Node*>& nodes, size_t begin, size_t end,
             std::mt19937& random) {
  std::vector<Node*> waiting(nodes.begin() + static_cast<std::ptrdiff_t>(begin),
                             nodes.begin() + static_cast<std::ptrdiff_t>(end));
  std::set<const Node*> inside(waiting.begin(), waiting.end());
  Node* after = end < nodes.size() ? nodes[end] : nullptr;
  while (!waiting.empty()) {
    std::vector<Node*> ready;
    for (Node* node : waiting) {
      const std::vector<Value*> inputs = node->inputs();
      if (std::none_of(inputs.begin(), inputs.end(),
                       [&](const Value* input) { return inside.contains(input->producer()); }))
        ready.push_back(node);
    }
    Node* next = ready[random() % ready.size()];
    graph.move_before(*next, after);
    inside.erase(next);
    std::erase(waiting, next);
  }
}

}  // namespace

OldNames rename_all(Graph& graph, std::mt19937& random) {
  OldNames names;
  int number = static_cast<int>(random() % 1000);
  // Values first, because a node's new name also becomes that of a value with its old name.
  for (Value* value : values_of(graph)) {
    const std::string old = value->name();
    graph.rename(*value, fmt::format("value_{}", number += 7));
    names.values[value->name()] = old;
  }
  for (Node* node : graph.nodes()) {
    const std::string old = node->name();
    graph.rename(*node, fmt::format("renamed_{}", number += 7));
    names.nodes[node->name()] = old;
  }
  return names;
}

void rename_back(Graph& graph, const OldNames& names) {
  for (Value* value : values_of(graph)) {
    const auto old = names.values.find(value->name());
    if (old != names.values.end()) graph.rename(*value, old->second);
  }
  for (Node* node : graph.nodes()) {
    const auto old = names.nodes.find(node->name());
    if (old != names.nodes.end()) graph.rename(*node, old->second);
  }
}

std::unique_ptr<Graph> permuted(const Graph& graph, std::mt19937& random) {
  const std::unique_ptr<Graph> moved = clone(graph);
  const std::vector<Node*> nodes = moved->nodes();
  for (size_t begin = 0, end = 0; begin < nodes.size(); begin = end + 1) {
    end = begin;
    while (end < nodes.size() && !has_side_effects(*nodes[end])) ++end;
    shuffle(*moved, nodes, begin, end, random);
  }
  return clone(*moved);  // again, so that lists of users follow the new order
}

}  // namespace octet

#include "annotate/graph/aliasing.h"

#include <algorithm>

#include "annotate/graph/observe_op.h"

namespace octet {

Writes::Writes(const Graph& graph) : graph_(graph) {
  std::vector<const Node*> writers;
  for (const Node* node : graph.nodes())
    if (!written_values(*node).empty()) writers.push_back(node);
  if (writers.empty()) return;
  find_roots();
  for (const Node* node : writers)
    for (const Value* value : written_values(*node))
      for (const Value* root : roots_of(*value)) writes_[root].push_back(node);
}

// In graph order, so that the roots of what a node takes are known.
void Writes::find_roots() {
  for (const Node* node : graph_.nodes()) {
    std::vector<const Value*> roots;
    for (const Value* input : aliased_inputs(*node))
      for (const Value* root : roots_of(*input))
        if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(root);
    if (roots.empty()) continue;
    for (const Value* output : node->outputs()) roots_[output] = roots;
  }
}

// Nodes that came later, observer nodes, hand their input on.
std::vector<const Value*> Writes::roots_of(const Value& value) const {
  const Value* known = through_observers(&value);
  const auto found = roots_.find(known);
  return found == roots_.end() ? std::vector<const Value*>{known} : found->second;
}

bool Writes::any_between(const Value& value, const Node* from, const Node& to) const {
  if (writes_.empty()) return false;
  const std::vector<const Value*> roots = roots_of(value);
  return std::any_of(roots.begin(), roots.end(), [&](const Value* root) {
    const auto found = writes_.find(root);
    return found != writes_.end() &&
           std::any_of(found->second.begin(), found->second.end(), [&](const Node* write) {
             return write != from && write != &to && graph_.is_before(*write, to) &&
                    (from == nullptr || graph_.is_before(*from, *write));
           });
  });
}

std::unordered_set<const Value*> overwritten_values(const Graph& graph) {
  std::unordered_set<const Value*> written, overwritten;
  for (const Node* node : graph.nodes())
    for (const Value* value : written_values(*node))
      for (const Value* root : memory_roots({value})) written.insert(root);
  if (written.empty()) return {};
  const auto look_at = [&](const Value* value) {
    for (const Value* root : memory_roots({value}))
      if (written.contains(root)) overwritten.insert(value);
  };
  for (const GraphInput& input : graph.inputs()) look_at(input.value);
  for (const Node* node : graph.nodes())
    for (const Value* value : node->outputs()) look_at(value);
  return overwritten;
}

}  // namespace octet

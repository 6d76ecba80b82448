#include "annotate/graph/aliasing.h"

#include <algorithm>

#include "annotate/graph/observe_op.h"
#include "core/ops/op_lookup.h"
#include "core/ops/op_schema.h"

namespace octet {

std::vector<const Value*> aliased_inputs(const Node& node) {
  const std::optional<c10::OperatorHandle> op = find_operator(node.target());
  if (!op) {
    const std::vector<Value*> inputs = node.inputs();
    return {inputs.begin(), inputs.end()};
  }
  std::vector<const Value*> result;
  for (const c10::Argument& argument : op->schema().arguments()) {
    const Argument* given =
        argument.alias_info() == nullptr ? nullptr : node.find_argument(argument.name());
    if (given != nullptr) for_each_value(*given, [&](Value* value) { result.push_back(value); });
  }
  return result;
}

std::unordered_set<const Value*> memory_roots(std::vector<const Value*> open) {
  std::unordered_set<const Value*> roots;
  std::unordered_set<const Value*> seen;
  while (!open.empty()) {
    const Value* next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    const std::vector<const Value*> sources = next->producer() == nullptr
                                                  ? std::vector<const Value*>()
                                                  : aliased_inputs(*next->producer());
    if (sources.empty()) roots.insert(next);
    open.insert(open.end(), sources.begin(), sources.end());
  }
  return roots;
}

std::vector<const Value*> written_values(const Node& node) {
  const OpSchema* schema = find_op_schema(node.target());
  if (schema == nullptr || !schema->is_mutable() || node.target() == "aten.detach_.default")
    return {};
  std::vector<const Value*> written;
  for (const SchemaArgument& argument : schema->arguments) {
    const Argument* given = argument.is_write ? node.find_argument(argument.name) : nullptr;
    if (given != nullptr) for_each_value(*given, [&](Value* value) { written.push_back(value); });
  }
  return written;
}

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

}  // namespace octet

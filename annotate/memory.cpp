#include "annotate/memory.h"

#include <algorithm>

#include "core/op_lookup.h"
#include "core/op_schema.h"

namespace octet {

std::vector<const Value*> aliased_inputs(const Node& node) {
  const std::optional<c10::OperatorHandle> op = find_operator(node.target());
  if (!op) {
    const std::vector<Value*> inputs = node.inputs();
    return {inputs.begin(), inputs.end()};
  }
  std::vector<const Value*> result;
  for (const c10::Argument& argument : op->schema().arguments()) {
    const Argument* given = argument.alias_info() == nullptr ? nullptr : node.find_argument(argument.name());
    if (given != nullptr) for_each_value(*given, [&](Value* value) { result.push_back(value); });
  }
  return result;
}

std::unordered_set<const Value*> memory_roots(const Value& value) {
  std::unordered_set<const Value*> roots;
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> open = {&value};
  while (!open.empty()) {
    const Value* next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    const std::vector<const Value*> sources = next->producer() == nullptr ? std::vector<const Value*>() : aliased_inputs(*next->producer());
    if (sources.empty()) roots.insert(next);
    open.insert(open.end(), sources.begin(), sources.end());
  }
  return roots;
}

std::vector<const Value*> written_values(const Node& node) {
  const OpSchema* schema = find_op_schema(node.target());
  if (schema == nullptr || !schema->is_mutable() || node.target() == "aten.detach_.default") return {};
  std::vector<const Value*> written;
  for (const SchemaArgument& argument : schema->arguments) {
    const Argument* given = argument.is_write ? node.find_argument(argument.name) : nullptr;
    if (given != nullptr) for_each_value(*given, [&](Value* value) { written.push_back(value); });
  }
  return written;
}

Writes::Writes(const Graph& graph) : graph_(graph) {
  for (const Node* node : graph.nodes()) {
    std::unordered_set<const Value*> roots;
    for (const Value* value : written_values(*node)) roots.merge(memory_roots(*value));
    for (const Value* root : roots) writes_[root].push_back(node);
  }
}

bool Writes::any_between(const Value& value, const Node* from, const Node& to) const {
  if (writes_.empty()) return false;
  const std::unordered_set<const Value*> roots = memory_roots(value);
  return std::any_of(roots.begin(), roots.end(), [&](const Value* root) {
    const auto found = writes_.find(root);
    return found != writes_.end() && std::any_of(found->second.begin(), found->second.end(), [&](const Node* write) {
             return write != from && write != &to && graph_.is_before(*write, to) && (from == nullptr || graph_.is_before(*from, *write));
           });
  });
}

}  // namespace octet

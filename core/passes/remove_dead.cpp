#include "core/passes/remove_dead.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/ops/memory.h"
#include "core/ops/op_lookup.h"
#include "core/ops/op_schema.h"

namespace octet {
namespace {

// Python functions on numbers: the only targets outside of the dispatcher that are known to be
// pure.
constexpr std::array<std::string_view, 4> kPurePrefixes = {"_operator.", "math.", "torch.sym_",
                                                           "torch.utils._sympy."};

bool is_unused(const Node& node) {
  const std::vector<Value*> outputs = node.outputs();
  return std::all_of(outputs.begin(), outputs.end(),
                     [](const Value* value) { return value->is_unused(); });
}

int remove_dead_inputs(Graph& graph) {
  std::set<std::string> mutated;
  for (const GraphOutput& output : graph.outputs())
    if (output.kind == OutputKind::kBufferMutation || output.kind == OutputKind::kParameterMutation)
      mutated.insert(output.target);
  std::vector<Value*> dead;
  std::set<std::string> named;
  for (const GraphInput& input : graph.inputs()) {
    const bool has_data = input.kind == InputKind::kParameter || input.kind == InputKind::kBuffer ||
                          input.kind == InputKind::kTensorConstant;
    if (has_data && input.value->is_unused() && !mutated.contains(input.fqn))
      dead.push_back(input.value);
    else if (!input.fqn.empty())
      named.insert(input.fqn);
  }
  graph.erase_inputs(dead);
  std::erase_if(graph.constants, [&](const auto& entry) {
    return !named.contains(entry.first) && !mutated.contains(entry.first);
  });
  return static_cast<int>(dead.size());
}

}  // namespace

bool has_side_effects(const Node& node) {
  const OpSchema* schema = find_op_schema(node.target());
  if (schema == nullptr)
    return std::none_of(kPurePrefixes.begin(), kPurePrefixes.end(),
                        [&](std::string_view prefix) { return node.target().starts_with(prefix); });
  if (schema->is_mutable() || schema->returns.empty()) return true;
  if (!written_values(node).empty()) return true;
  const std::optional<c10::OperatorHandle> handle = find_operator(node.target());
  return handle && handle->hasTag(at::Tag::nondeterministic_seeded);
}

int remove_dead(Graph& graph, DeadInputs inputs) {
  int removed = 0;
  std::vector<Node*> nodes = graph.nodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    if (!is_unused(**it) || has_side_effects(**it)) continue;
    graph.erase(**it);
    ++removed;
  }
  if (inputs == DeadInputs::kRemove) removed += remove_dead_inputs(graph);
  return removed;
}

}  // namespace octet

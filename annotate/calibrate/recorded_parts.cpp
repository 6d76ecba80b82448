#include "annotate/calibrate/recorded_parts.h"

#include <algorithm>

#include <fmt/format.h>

#include "annotate/graph/control_flow.h"
#include "core/base/error.h"
#include "core/interpreter/special_ops.h"
#include "core/ops/op_lookup.h"
#include "core/passes/verify.h"

namespace octet {
namespace {

std::vector<const Island*> recorded_islands(const ObservedGraph& observed) {
  std::vector<const Island*> islands;
  for (const Island& island : observed.islands) {
    if (!island.is_recorded) continue;
    if (&island.nodes.front()->graph() != &observed.graph)
      throw Error("calibrate", island.name,
                  "is in a body of control flow, which may run any number of times; record the "
                  "whole call instead");
    islands.push_back(&island);
  }
  return islands;
}

bool has_kernel(const std::string& target) {
  if (find_python_op(target) != nullptr || target.starts_with("higher_order.")) return true;
  const std::optional<c10::OperatorHandle> op = find_operator(target);
  return op && (target.starts_with("aten.") ||
                op->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU));
}

}  // namespace

std::vector<const Value*> recorded_values(const ObservedGraph& observed) {
  std::vector<const Value*> values;
  for (const Island* island : recorded_islands(observed))
    values.insert(values.end(), island->outputs.begin(), island->outputs.end());
  const auto is_earlier = [&](const Value* a, const Value* b) {
    if (a->producer() == b->producer()) return a->index() < b->index();
    return observed.graph.is_before(*a->producer(), *b->producer());
  };
  std::ranges::sort(values, is_earlier);
  return values;
}

ObservedGraph cut_recorded_parts(const ObservedGraph& observed) {
  std::unordered_map<const Value*, Value*> copies;
  std::unique_ptr<Graph> graph = clone(observed.graph, &copies);
  for (const Value* value : recorded_values(observed)) {
    Value* copy = copies.at(value);
    const std::string name = copy->name();
    graph->rename(*copy, graph->fresh_name(name));
    graph->replace_uses(copy, graph->add_input(name, ValueKind::kTensor, value->meta));
  }
  for (const Island* island : recorded_islands(observed))
    for (auto node = island->nodes.rbegin(); node != island->nodes.rend(); ++node) {
      Node* copy = graph->find_node((*node)->name());
      const std::vector<Value*> outputs = copy->outputs();
      if (std::ranges::all_of(outputs, [](const Value* output) { return output->is_unused(); }))
        graph->erase(*copy);
    }
  verify(*graph);
  return {std::move(*graph), observed.observers, {}};
}

void check_ops_can_run(const Graph& graph, const std::vector<std::string>& known) {
  const auto check = [&](const Graph& part) {
    for (const Node* node : part.nodes()) {
      if (std::ranges::find(known, node->target()) != known.end() || has_kernel(node->target()))
        continue;
      throw Error("calibrate", "%" + node->name(),
                  fmt::format("{0} has no kernel here, so the program cannot run; load the library "
                              "that has it (--library LIB.so), or keep it whole "
                              "(\"opaque\": [{{\"op\": \"{0}\", \"recorded\": true}}]) and give "
                              "what it returned in PyTorch (--recorded R.pt)",
                              node->target()));
    }
  };
  check(graph);
  for (const Body& body : bodies_within(graph)) check(*body.graph);
}

}  // namespace octet

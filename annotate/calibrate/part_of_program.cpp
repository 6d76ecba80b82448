#include "annotate/calibrate/part_of_program.h"

#include <algorithm>

#include "annotate/graph/observe_op.h"
#include "core/ops/memory.h"
#include "core/passes/remove_dead.h"

namespace octet {
namespace {

// Looks at the nodes from the last to the first: what is needed behind one is known by then.
class Needs {
 public:
  // Whether observed values depend on the node; what it reads is needed then.
  bool take(const Node& node) {
    if (!is_observer_node(&node) && !gives(node) && !changes(node)) return false;
    for (const Value* input : node.inputs()) {
      values_.insert(input);
      memory_.merge(memory_roots({input}));
    }
    return true;
  }

 private:
  bool gives(const Node& node) const {
    const std::vector<Value*> outputs = node.outputs();
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](const Value* value) { return values_.contains(value); });
  }

  // More than its results: memory that is read behind it, or something that cannot be known.
  bool changes(const Node& node) const {
    if (!has_side_effects(node)) return false;
    const std::vector<const Value*> written = written_values(node);
    if (written.empty()) return true;
    const std::unordered_set<const Value*> roots = memory_roots(written);
    return std::any_of(roots.begin(), roots.end(),
                       [&](const Value* root) { return memory_.contains(root); });
  }

  std::unordered_set<const Value*> values_, memory_;
};

}  // namespace

ObservedGraph part_for_groups(const ObservedGraph& observed,
                              const std::unordered_set<int>& groups) {
  std::unique_ptr<Graph> graph = clone(observed.graph);
  for (size_t i = 0; i < graph->outputs().size(); ++i) graph->set_output(i, None{});
  for (Node* point : observer_nodes(*graph)) {
    if (groups.contains(group_of(*point))) continue;
    graph->replace_uses(point->output(), point->find_input("input"));
    graph->erase(*point);
  }
  const std::vector<Node*> nodes = graph->nodes();
  Needs needs;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if (!needs.take(**node)) graph->erase(**node);
  ObservedGraph part{std::move(*graph), observed.observers, {}};
  for (size_t group = 0; group < part.observers.size(); ++group)
    if (!groups.contains(static_cast<int>(group))) {
      ObserverArgs nothing;
      nothing.choice.name = "noop";
      part.observers[group] = make_observer(nothing);
    }
  return part;
}

}  // namespace octet

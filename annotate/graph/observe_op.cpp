#include "annotate/graph/observe_op.h"

#include "annotate/graph/control_flow.h"
#include "core/base/error.h"

namespace octet {
namespace {

void collect_points(const Graph& graph, std::vector<Node*>& points) {
  for (Node* node : graph.nodes())
    if (node->target() == kObserveTarget) points.push_back(node);
}

}  // namespace

std::vector<Node*> observer_nodes(const Graph& graph) {
  std::vector<Node*> points;
  collect_points(graph, points);
  for (const Body& body : bodies_within(graph)) collect_points(*body.graph, points);
  return points;
}

int group_of(const Node& observer_node) {
  const int64_t group = observer_node.int_or("group", -1);
  OCTET_ASSERT(observer_node.target() == kObserveTarget && group >= 0, observer_node.name());
  return static_cast<int>(group);
}

Value* observed_value(const Node& observer_node) {
  Value* value = observer_node.find_input("input");
  while (value->producer() != nullptr && value->producer()->target() == kObserveTarget)
    value = value->producer()->find_input("input");
  return value;
}

}  // namespace octet

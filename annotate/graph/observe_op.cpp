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

std::vector<Node*> observation_points(const Graph& graph) {
  std::vector<Node*> points;
  collect_points(graph, points);
  for (const Body& body : bodies_within(graph)) collect_points(*body.graph, points);
  return points;
}

int group_of(const Node& observation_point) {
  const int64_t group = observation_point.int_or("group", -1);
  OCTET_ASSERT(observation_point.target() == kObserveTarget && group >= 0,
               observation_point.name());
  return static_cast<int>(group);
}

Value* observed_value(const Node& observation_point) {
  Value* value = observation_point.find_input("input");
  while (value->producer() != nullptr && value->producer()->target() == kObserveTarget)
    value = value->producer()->find_input("input");
  return value;
}

}  // namespace octet

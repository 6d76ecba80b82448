#include "annotate/graph/observe_op.h"

#include "annotate/graph/control_flow.h"
#include "core/base/error.h"

namespace octet {
namespace {

void collect_points(const Graph& graph, std::vector<Node*>& points) {
  for (Node* node : graph.nodes())
    if (is_observer_node(node)) points.push_back(node);
}

}  // namespace

bool is_observer_node(const Node* node) {
  return node != nullptr && node->target() == kObserveTarget;
}

std::vector<Node*> observer_nodes(const Graph& graph) {
  std::vector<Node*> points;
  collect_points(graph, points);
  for (const Body& body : bodies_within(graph)) collect_points(*body.graph, points);
  return points;
}

int group_of(const Node& observer_node) {
  const int64_t group = observer_node.int_or("group", -1);
  OCTET_ASSERT(is_observer_node(&observer_node) && group >= 0, observer_node.name());
  return static_cast<int>(group);
}

const Value* through_observers(const Value* value) {
  while (value != nullptr && is_observer_node(value->producer()))
    value = value->producer()->find_input("input");
  return value;
}

Value* through_observers(Value* value) {
  return const_cast<Value*>(through_observers(static_cast<const Value*>(value)));
}

Value* observed_value(const Node& observer_node) {
  return through_observers(observer_node.find_input("input"));
}

Node* insert_observer_node(Graph& graph, Value* input, int group, std::string name, Node* before) {
  std::vector<NamedArgument> arguments = {{"input", input}, {"group", int64_t{group}}};
  return graph.insert(std::string(kObserveTarget), std::move(arguments), std::move(name),
                      input->meta, before);
}

}  // namespace octet

// The op that stands where values are observed: octet.observe.default, whose result is its input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// A node with argument "input" (a Value) and "group" (an int, index into ObservedGraph::observers):
// an observer node.
inline constexpr std::string_view kObserveTarget = "octet.observe.default";

bool is_observer_node(const Node* node);  // false for null
// All observer nodes in graph order, then those of each body of control flow; and the group of
// one.
std::vector<Node*> observer_nodes(const Graph& graph);
int group_of(const Node& observer_node);

// What `value` is when one looks through the observer nodes that made it; null for null.
Value* through_observers(Value* value);
const Value* through_observers(const Value* value);
// The value that an observer node observes, looked at in the same way.
Value* observed_value(const Node& observer_node);

// Adds an observer node on `input` in front of `before` (at the end: null).
Node* insert_observer_node(Graph& graph, Value* input, int group, std::string name, Node* before);

}  // namespace octet

// The op that stands where values are observed: octet.observe.default, whose result is its input.
#pragma once

#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// A node with argument "input" (a Value) and "group" (an int, index into ObservedGraph::observers):
// an observer node.
inline constexpr std::string_view kObserveTarget = "octet.observe.default";

// All observer nodes in graph order, then those of each body of control flow; and the group of
// one.
std::vector<Node*> observer_nodes(const Graph& graph);
int group_of(const Node& observer_node);
// The value behind a chain of observer nodes.
Value* observed_value(const Node& observer_node);

}  // namespace octet

// The op that stands where values are observed: octet.observe.default, whose result is its input.
#pragma once

#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// A node with argument "input" (a Value) and "group" (an int, index into ObservedGraph::observers):
// an observation point.
inline constexpr std::string_view kObserveTarget = "octet.observe.default";

// All observation points in graph order, then those of each body of control flow; and the group of
// one.
std::vector<Node*> observation_points(const Graph& graph);
int group_of(const Node& observation_point);
// The value behind a chain of observation points.
Value* observed_value(const Node& observation_point);

}  // namespace octet

// Changes of a graph that must not change its annotations: other names, and another order of
// independent nodes.
#pragma once

#include <random>

#include "core/graph/graph.h"

namespace octet {

// The old names of nodes and values, by the new ones.
struct OldNames {
  std::map<std::string, std::string> nodes, values;
};

// Gives every node and every value another name.
OldNames rename_all(Graph& graph, std::mt19937& random);
void rename_back(Graph& graph, const OldNames& names);

// The graph with each run of nodes without side effects in a random order, definitions first.
std::unique_ptr<Graph> permuted(const Graph& graph, std::mt19937& random);

}  // namespace octet

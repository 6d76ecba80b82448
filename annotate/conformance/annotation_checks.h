// Checks the annotations of one graph without a backend, and makes changes of a graph that must not
// change its annotations: other names, and another order of independent nodes.
#pragma once

#include <random>

#include "annotate/annotation/annotation.h"
#include "core/graph/graph.h"

namespace octet {

// Throws Error("conformance", "legal", ...) for a spec on an edge that does not exist or on a
// tensor that is not floating point, a spec that contradicts itself or the tensor's shape, and a
// bias whose scale is not derived from the input and the weight that it is added to.
void check_legal(const Graph& graph, const Annotations& annotations);

// Each node's annotation, and which edges and values share an observer, one a line, sorted. Throws
// as find_sharing_groups does.
std::string sorted_text(const Graph& graph, const Annotations& annotations);

// "got LINE, want LINE" of the first line in which they differ; "" when equal.
std::string first_difference(const std::string& got, const std::string& want);

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

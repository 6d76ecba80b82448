// Implements octet.Graph, a program in the form in which it is quantized.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "core/graph/graph.h"

namespace octet::python {

// Shared, because results and what was made from them refer to the same graph.
struct GraphHandle {
  std::shared_ptr<const Graph> graph;
  std::vector<std::string> sources;  // files it was made from, which outputs must not overwrite
};

inline GraphHandle handle_of(Graph graph, std::vector<std::string> sources) {
  return {std::make_shared<const Graph>(std::move(graph)), std::move(sources)};
}

void bind_graph(nanobind::module_& module);

}  // namespace octet::python

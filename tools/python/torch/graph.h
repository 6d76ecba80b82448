// octet.Graph: a program in the form in which it is quantized.
#pragma once

#include <memory>

#include <nanobind/nanobind.h>

#include "core/graph/graph.h"

namespace octet::python {

// Shared, as results and what was made of them look at it.
struct GraphHandle {
  std::shared_ptr<const Graph> graph;
};

inline GraphHandle handle_of(Graph graph) {
  return {std::make_shared<const Graph>(std::move(graph))};
}

void bind_graph(nanobind::module_& module);

}  // namespace octet::python

#include "tools/python/torch/graph.h"

#include <set>
#include <string>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nlohmann/json.hpp>

#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "core/pt2/writer.h"
#include "tools/commands/inspect_graph.h"
#include "tools/python/torch/calls.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

// "aten", "torchao", ...: whose ops the program calls, in its bodies too.
void add_libraries(const Graph& graph, std::set<std::string>& libraries) {
  for (const Node* node : graph.nodes()) {
    libraries.insert(node->target().substr(0, node->target().find('.')));
    for (const NamedArgument& argument : node->arguments())
      if (const auto* body = argument.value.find<Subgraph>())
        add_libraries(*body->graph, libraries);
  }
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<GraphHandle>(module, "Graph")
      .def_static(
          "read",
          [](const std::filesystem::path& path) {
            return without_gil([&] {
              Graph graph = read_pt2(path);
              verify(graph);
              return handle_of(std::move(graph));
            });
          },
          "path"_a)
      .def(
          "write",
          [](const GraphHandle& self, const std::filesystem::path& path) {
            without_gil([&] { write_pt2(*self.graph, path); });
          },
          "path"_a)
      .def("libraries",
           [](const GraphHandle& self) {
             std::set<std::string> libraries;
             add_libraries(*self.graph, libraries);
             return libraries;
           })
      .def("table", [](const GraphHandle& self) { return to_table(*self.graph); })
      .def("json", [](const GraphHandle& self) {
        return to_json(*self.graph)
            .dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
      });
}

}  // namespace octet::python

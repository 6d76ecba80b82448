#include "tools/python/torch/graph.h"

#include <filesystem>
#include <set>
#include <string>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "core/base/output_file.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "core/pt2/writer.h"
#include "tools/cli/commands/inspect_graph.h"
#include "tools/python/torch/calls.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

namespace fs = std::filesystem;

// Adds the libraries whose ops the program and its bodies call: "aten", "torchao", ...
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
  module.def(
      "write_text",
      [](const fs::path& path, const std::string& text, const std::vector<std::string>& sources) {
        check_no_input(path, sources, "output");
        write_file(path, text, "output");
      },
      "path"_a, "text"_a, "sources"_a);
  module.def(
      "check_output",
      [](const fs::path& path, const std::vector<std::string>& sources) {
        check_no_input(path, sources, "output");
        check_writable(path, "output");
      },
      "path"_a, "sources"_a,
      "Raises Error when the file is one of `sources` or cannot be written.");
  nb::class_<GraphHandle>(module, "Graph")
      .def_static(
          "read",
          [](const std::filesystem::path& path) {
            return without_gil([&] {
              Graph graph = read_pt2(path);
              verify(graph);
              return handle_of(std::move(graph), {fs::absolute(path).string()});
            });
          },
          "path"_a)
      .def(
          "write",
          [](const GraphHandle& self, const std::filesystem::path& path) {
            without_gil([&] {
              check_no_input(path, self.sources, "pt2");
              write_pt2(*self.graph, path);
            });
          },
          "path"_a)
      .def("libraries",
           [](const GraphHandle& self) {
             std::set<std::string> libraries;
             add_libraries(*self.graph, libraries);
             return libraries;
           })
      .def_ro("sources", &GraphHandle::sources)
      .def("table", [](const GraphHandle& self) { return to_table(*self.graph); })
      .def("json", [](const GraphHandle& self) {
        return dump_json(to_json(*self.graph), -1, true,
                         nlohmann::ordered_json::error_handler_t::replace);
      });
}

}  // namespace octet::python

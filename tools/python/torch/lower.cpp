#include "tools/python/torch/bindings.h"

#include <filesystem>
#include <string>
#include <vector>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "backends/registry.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/report.h"
#include "lowering/import/call_spec.h"
#include "tools/cli/commands/requests.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/python/runtime/model.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/graph.h"
#include "tools/python/torch/settings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

struct Lowered {
  std::unique_ptr<Model> model;
  std::vector<std::string> notes, warnings;
};

Lowered lower_graph(const GraphHandle& graph, const std::string& backend, const nb::dict& settings,
                    const SessionOptions& session) {
  LowerRequest request;
  take(settings, options_of(request), "lower");
  return without_gil([&] {
    Report report;
    Program program = lower(*graph.graph, make_supports(backend), request.options, report);
    Lowered lowered;
    lowered.warnings = slow_products(program);
    lowered.notes = report.notes();
    lowered.model = std::make_unique<Model>(
        LoweredFile{std::move(program), call_spec_of(*graph.graph)}, session);
    lowered.model->sources = graph.sources;
    return lowered;
  });
}

// Writes the ONNX file and returns its opset.
int64_t export_onnx([[maybe_unused]] const GraphHandle& graph, const std::filesystem::path& path,
                    [[maybe_unused]] const nb::dict& settings) {
#ifdef OCTET_ONNX
  ExportRequest request;
  take(settings, options_of(request), "onnx");
  return without_gil([&] {
    check_no_input(path, graph.sources, "onnx");
    const OnnxModel model = to_onnx(*graph.graph, request.form);
    write_onnx(model, path, request.weights());
    return model.opset;
  });
#else
  throw Error("onnx", path.string(), "this build has no protobuf; install it and build again");
#endif
}

}  // namespace

void bind_lower(nb::module_& module) {
  module.def(
      "lower",
      [](const GraphHandle& graph, const std::string& backend, const nb::dict& settings,
         const nb::dict& session) {
        Lowered lowered =
            lower_graph(graph, backend, settings, session_options_of(session, "lower"));
        lowered.model->call_spec();
        return nb::make_tuple(nb::cast(std::move(lowered.model)), lowered.notes, lowered.warnings);
      },
      "graph"_a, "backend"_a, "settings"_a, "session"_a);
  module.def("explain", [](const Model& model) { return explain(model.program()); }, "model"_a);
}

void bind_export(nb::module_& module) {
  module.def("export_onnx", export_onnx, "graph"_a, "path"_a, "settings"_a);
}

}  // namespace octet::python

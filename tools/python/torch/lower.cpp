#include "tools/python/torch/bindings.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "backends/registry.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/report.h"
#include "lowering/lower.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/python/runtime/model.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/graph.h"
#ifdef OCTET_ONNX
#include "tools/onnx/export.h"
#include "tools/onnx/file.h"
#endif

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

Fallback fallback_of(const std::string& name) {
  if (name == "reference") return Fallback::kReference;
  if (name == "torch") return Fallback::kTorch;
  if (name == "none") return Fallback::kNone;
  throw Error("lower", "fallback",
              fmt::format("got \"{}\", want \"reference\", \"torch\" or \"none\"", name));
}

struct Lowered {
  std::unique_ptr<Model> model;
  std::vector<std::string> notes, warnings;
};

Lowered lower_graph(const GraphHandle& graph, const std::string& backend,
                    const std::string& fallback, const SessionOptions& session) {
  const LowerOptions options{.fallback = fallback_of(fallback)};
  return without_gil([&] {
    Report report;
    Program program = lower(*graph.graph, *make_support(backend), options, report);
    Lowered lowered;
    lowered.warnings = slow_products(program);
    lowered.notes = report.notes();
    lowered.model = std::make_unique<Model>(std::move(program), session);
    lowered.model->sources = graph.sources;
    return lowered;
  });
}

// Writes the ONNX file and returns its opset.
int64_t export_onnx([[maybe_unused]] const GraphHandle& graph, const std::filesystem::path& path,
                    [[maybe_unused]] std::optional<int64_t> opset,
                    [[maybe_unused]] bool external_data, [[maybe_unused]] bool integer_biases) {
#ifdef OCTET_ONNX
  const OnnxOptions options{.opset = opset, .has_integer_biases = integer_biases};
  return without_gil([&] {
    check_no_input(path, graph.sources, "onnx");
    const OnnxModel model = to_onnx(*graph.graph, options);
    write_onnx(model, path, external_data ? OnnxWeights::kBeside : OnnxWeights::kAsFits);
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
      [](const GraphHandle& graph, const std::string& backend, const std::string& fallback,
         const nb::dict& session) {
        Lowered lowered =
            lower_graph(graph, backend, fallback, session_options_of(session, "lower"));
        return nb::make_tuple(nb::cast(std::move(lowered.model)), lowered.notes, lowered.warnings);
      },
      "graph"_a, "backend"_a, "fallback"_a, "session"_a);
  module.def("explain", [](const Model& model) { return explain(model.program()); }, "model"_a);
}

void bind_export(nb::module_& module) {
  module.def("export_onnx", export_onnx, "graph"_a, "path"_a, "opset"_a.none(), "external_data"_a,
             "integer_biases"_a);
}

}  // namespace octet::python

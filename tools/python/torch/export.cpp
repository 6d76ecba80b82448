#include "tools/python/torch/export.h"

#include <filesystem>
#include <optional>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>

#include "core/base/error.h"
#include "core/base/output_file.h"
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

// The opset of what was written.
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
  throw Error("onnx", path.string(), "this build has no protobuf; install it and build anew");
#endif
}

}  // namespace

void bind_export(nb::module_& module) {
  module.def("export_onnx", export_onnx, "graph"_a, "path"_a, "opset"_a.none(), "external_data"_a,
             "integer_biases"_a);
}

}  // namespace octet::python

#include "tools/cli/commands/requests.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/messages.h"

namespace octet {

Options options_of(ExportRequest& request) {
  return joined({
      {
          Option{"model", &request.model, "The .pt2, quantized or not"}.positional().required(),
          Option{"onnx", &request.onnx, "The .onnx to write"}.required().output(),
          Option{"opset", &request.form.opset,
                 fmt::format("Version of ONNX's operators, {} to {}; default: the lowest that has "
                             "all that the program needs",
                             kLeastOpset, kGreatestOpset)},
          Option{"external_data", &request.has_weights_beside,
                 "Write weights to a separate file, FILE.data; always done over 2 GB"},
          Option{"integer_biases", &request.form.has_integer_biases,
                 "Round the biases of convolutions of integers to int32, for runtimes that do not "
                 "by themselves"},
      },
      library_options(request.libraries),
      {print_after_option()},
  });
}

namespace {

void export_model(ExportRequest& request) {
  load_libraries(request.libraries);
  check_writable(request.onnx);
  const Graph graph = read_pt2(request.model);
  verify(graph);
  const OnnxModel model = to_onnx(graph, request.form);
  const OnnxFiles files = write_onnx(model, request.onnx, request.weights());
  log_line(fmt::format(
      "export: {} ops as {} nodes of opset {}{}", graph.node_count(), model.nodes.size(),
      model.opset,
      files.weights.empty() ? "" : ", weights in " + files.weights.filename().string()));
}

}  // namespace

void add_export_command(CLI::App& app) {
  add_command<ExportRequest>(
      app, "export",
      "Write a program for other runtimes: ONNX with its quantize and dequantize ops",
      export_model);
}

}  // namespace octet

// Implements octet export, which writes a program, quantized or not, as an ONNX file.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "core/base/error.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/common/options.h"
#include "tools/onnx/export.h"
#include "tools/onnx/file.h"

namespace octet {

void add_export_command(CLI::App& app) {
  struct Options {
    std::string model, onnx;
    OnnxOptions form;
    bool has_weights_beside = false;
    std::vector<std::string> libraries;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("export",
                                         "Write a program for other runtimes: ONNX with its "
                                         "quantize and dequantize ops");
  command->add_option("model", options->model, "The .pt2, quantized or not")->required();
  command->add_option("--onnx", options->onnx, "The .onnx to write")->required();
  command->add_option("--opset", options->form.opset,
                      fmt::format("Version of ONNX's operators, {} to {}; default: the lowest that "
                                  "has all that the program needs",
                                  kLeastOpset, kGreatestOpset));
  command->add_flag("--external-data", options->has_weights_beside,
                    "Write weights to a separate file, FILE.data; always done over 2 GB");
  command->add_flag("--integer-biases", options->form.has_integer_biases,
                    "Round the biases of convolutions of integers to int32, for runtimes that do "
                    "not by themselves");
  add_library_option(*command, options->libraries);
  add_print_after_option(*command);
  command->callback([options] {
    load_libraries(options->libraries);
    check_writable(options->onnx);
    const Graph graph = read_pt2(options->model);
    verify(graph);
    const OnnxModel model = to_onnx(graph, options->form);
    const OnnxFiles files =
        write_onnx(model, options->onnx,
                   options->has_weights_beside ? OnnxWeights::kBeside : OnnxWeights::kAsFits);
    log_line(fmt::format(
        "export: {} ops as {} nodes of opset {}{}", graph.node_count(), model.nodes.size(),
        model.opset,
        files.weights.empty() ? "" : ", weights in " + files.weights.filename().string()));
  });
}

}  // namespace octet

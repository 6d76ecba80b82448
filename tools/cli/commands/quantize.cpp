// octet quantize: a float .pt2 becomes a q/dq .pt2.
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "core/base/error.h"
#include "core/pt2/writer.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/common/standard_streams.h"
#include "tools/cli/processes/peers.h"
#include "tools/cli/quantize/data_checks.h"
#include "tools/cli/quantize/quantize.h"
#include "tools/cli/quantize/refusals.h"

namespace octet {
namespace {

struct QuantizeOptions {
  QuantizeRequest request;
  std::string output, report, dump_annotations;
  bool strict = false;
};

// Refuses what cannot be written before the work begins, so that nothing is left behind.
void check_outputs(const QuantizeOptions& options) {
  for (const std::string& path : {options.output, options.report, options.dump_annotations})
    if (!path.empty()) check_writable(path);
}

void log_example_inputs(const Graph& graph) {
  constexpr size_t kMany = 65536;
  const size_t bytes = example_input_bytes(graph);
  if (bytes < kMany) return;
  log_line(
      fmt::format("examples {:.2f} MB of the file are example inputs, which torch.export.save "
                  "kept; --drop-example-inputs leaves them out",
                  1e-6 * static_cast<double>(bytes)));
}

void quantize(QuantizeOptions& options, Processes& processes) {
  QuantizeRequest& request = options.request;
  const bool is_first = processes.rank() == 0;
  ProcessPeers all(processes);
  request.peers = all.get();
  if (is_first && request.has_quantized_io()) check_free_standard_output("--quantized-io");
  if (is_first) check_outputs(options);
  request.wants_pages = !options.report.empty();
  if (is_first && !options.dump_annotations.empty())
    request.annotated = [&](const std::string& annotations) {
      write_text_file(options.dump_annotations, annotations);
    };
  const QuantizeResult result = quantize_model(request);
  if (!is_first) return;
  if (result.pages) result.pages->write(options.report, result.report, result.figures);
  if (options.strict) check_strict(result.report, result.weight, request.flow.model);
  write_pt2(result.graph, options.output);
  log_refusals(result.report);
  for (const std::string& line : quality_lines(result.figures)) log_line(line);
  for (const std::string& low : find_shortcomings(result.weight, result.figures)) log_warning(low);
  log_example_inputs(result.graph);
  if (request.has_quantized_io()) print_json(to_json_text(result.io));
}

}  // namespace

void add_quantize_command(CLI::App& app) {
  auto options = std::make_shared<QuantizeOptions>();
  QuantizeRequest& request = options->request;
  CLI::App* command = app.add_subcommand(
      "quantize",
      "Turn a float .pt2 into a quantized .pt2 that PyTorch loads and `octet lower` takes; mpirun "
      "shares the data among processes");
  add_flow_options(*command, request.flow);
  add_training_mode_option(*command, request.flow);
  accept_standard_output(
      command->add_option("--output", options->output, "The .pt2 to write; -: stdout"))
      ->required();
  CLI::Option* calibration = command->add_option("--calibration", request.calibration,
                                                 "torch.save of a list of input tuples");
  command
      ->add_option(
          "--state", request.state,
          "Observers' states that `octet calibrate` saved: S.json, or A.json,B.json to be merged")
      ->excludes(calibration);
  add_effort_options(*command, request.effort);
  add_print_after_option(*command);
  command->add_option("--evaluate", request.evaluate,
                      "Data like --calibration's, on which the outputs are compared with the float "
                      "program's; by default the last calibration batches");
  command->add_option("--labels", request.labels,
                      "torch.save of a tensor with the class of each sample of that data: prints "
                      "the accuracy of both programs");
  command->add_option("--hold-out", request.hold_out,
                      "How many of the last calibration batches are held out; by default none, and "
                      "with accuracy passes one of 8 from 16 on, at most 8");
  add_report_option(*command, options->report);
  command
      ->add_option(
          "--dump-annotations", options->dump_annotations,
          "Write the specs of each edge and output, the sharing groups and their scales, as JSON")
      ->check([](const std::string& path) {
        return has_suffix(path, ".json") ? std::string() : "want a name that ends in .json";
      });
  command->add_flag("--drop-example-inputs", request.drops_example_inputs,
                    "Leave out the example inputs that torch.export.save kept in the file");
  command->add_flag(
      "--strict", options->strict,
      "Fail when a compute op stays float (with --mode dynamic or weight-only, one with weights), "
      "or less than 90 % of the multiply-accumulates that can be quantized are");
  CLI::Option* reference = command->add_flag(
      "--reference", request.reference,
      "Write integer arithmetic instead of quantize and dequantize ops, for reading and checking");
  command
      ->add_flag("--quantized-io", request.quantized_io,
                 "Inputs and outputs are integer tensors where they are quantized; prints their "
                 "parameters as JSON")
      ->excludes(reference);
  const auto add_list = [&](const std::string& name, std::vector<size_t>& indices,
                            const std::string& what) {
    command
        ->add_option(name, indices,
                     fmt::format("The same for these {0} only: indices from 0, such as 0,2", what))
        ->delimiter(',')
        ->check(CLI::Range(0, 65535))
        ->allow_extra_args(false)
        ->excludes(reference);
  };
  add_list("--quantized-inputs", request.quantized_inputs, "inputs");
  add_list("--quantized-outputs", request.quantized_outputs, "outputs");
  command->callback([options] {
    const QuantizeRequest& request = options->request;
    check_effort_options(request.effort, !request.calibration.empty(), request.flow.is_compat());
    Processes processes;
    if (processes.rank() != 0) set_silent();
    processes.gather([&] {
      quantize(*options, processes);
      return std::string();
    });
  });
}

}  // namespace octet

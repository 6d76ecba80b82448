// Implements octet quantize, which converts a float .pt2 to a q/dq .pt2.
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/pt2/writer.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/files.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/processes/processes.h"
#include "tools/cli/quantize/data_checks.h"
#include "tools/cli/quantize/quantize.h"
#include "tools/cli/quantize/refusals.h"

namespace octet {
namespace {

// Fails before the long work begins.
void check_outputs(const QuantizeRequest& request) {
  for (const std::string& path : {request.output, request.report, request.dump_annotations})
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

void quantize(QuantizeRequest& request, Processes& processes) {
  const bool is_first = processes.rank() == 0;
  ProcessPeers all(processes);
  request.peers = all.get();
  if (is_first && request.has_quantized_io()) check_free_standard_output("--quantized-io");
  if (is_first) check_outputs(request);
  request.wants_pages = !request.report.empty();
  if (is_first && !request.dump_annotations.empty())
    request.annotated = [&](const std::string& annotations) {
      write_text_file(request.dump_annotations, annotations);
    };
  const QuantizeResult result = quantize_model(request);
  if (!is_first) return;
  if (result.pages) result.pages->write(request.report, result.report, result.figures);
  if (request.strict) check_strict(result.report, result.weight, request.flow.model);
  write_pt2(result.graph, request.output);
  log_refusals(result.report);
  for (const std::string& line : quality_lines(result.figures)) log_line(line);
  for (const std::string& low : find_shortcomings(result.weight, result.figures)) log_warning(low);
  log_example_inputs(result.graph);
  if (request.has_quantized_io()) print_json(to_json_text(result.io));
}

}  // namespace

void add_quantize_command(CLI::App& app) {
  add_command<QuantizeRequest>(
      app, "quantize",
      "Turn a float .pt2 into a quantized .pt2 that PyTorch loads and `octet lower` takes; mpirun "
      "shares the data among processes",
      [](QuantizeRequest& request) {
        check_effort_options(request.effort, !request.data.calibration.empty(),
                             request.flow.is_compat());
        in_processes([&](Processes& processes) { quantize(request, processes); });
      });
}

}  // namespace octet

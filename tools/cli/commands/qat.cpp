// Implements octet qat, which trains a float .pt2 with fake quantization and writes a q/dq .pt2.
#include <fmt/format.h>

#include "core/pt2/writer.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/qat/qat.h"

namespace octet {
namespace {

// Fails before the long work begins.
void check_outputs(const QatRequest& request) {
  for (const std::string& path : {request.output, request.report, request.train.checkpoint})
    if (!path.empty()) check_writable(path);
}

void train_and_write(const QatRequest& request, Processes& processes) {
  if (processes.rank() == 0) check_outputs(request);
  const std::optional<QatResult> result = train_model(request, processes, !request.report.empty());
  if (!result) return;
  const Report& report = result->report;
  if (result->pages) result->pages->write(request.report, report, result->figures);
  write_pt2(result->graph, request.output);
  if (!report.entries().empty())
    log_line(
        fmt::format("float: {} ops; --report gives the reason for each", report.entries().size()));
  for (const std::string& note : report.notes()) log_line("note: " + note);
}

}  // namespace

void add_qat_command(CLI::App& app) {
  add_command<QatRequest>(
      app, "qat",
      "Train with fake quantization, then quantize; mpirun shares each batch among processes",
      [](QatRequest& request) {
        in_processes([&](Processes& processes) { train_and_write(request, processes); });
      });
}

}  // namespace octet

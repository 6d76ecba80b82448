// Implements octet tune, which searches a mixed precision for an accuracy or a size.
#include <fmt/format.h>

#include "backends/registry.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/pt2/writer.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/processes/processes.h"
#include "tools/cli/quantize/report_file.h"
#include "tools/cli/tune/trials.h"
#include "tools/cli/tune/tuner.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

std::string json_file(const Json& json) {
  return dump_json(json, 1, false, Json::error_handler_t::replace) + "\n";
}

void run_tune(const TuneOptions& options, Processes& processes) {
  ProcessPeers peers(processes);
  const bool is_first = processes.rank() == 0;
  for (const std::string& path : {options.output, options.save_config, options.report})
    if (!path.empty() && is_first) check_writable(path);
  const Graph original = read_model(options.flow);
  const Tuned tuned = tune(original, options, peers.get());
  if (!is_first) return;
  const Trial& best = tuned.outcome.trials[tuned.outcome.best];
  if (!options.report.empty())
    write_page_file(options.report, tune_report(original, tuned, options));
  write_text_file(options.save_config, json_file(tuned.config));
  write_pt2(tuned.quantized, options.output);
  log_line(fmt::format("best of {} evaluations on {}: {}", tuned.outcome.trials.size(),
                       tuned.batches, best.label));
  if (!tuned.estimate.is_trusted())
    log_warning(fmt::format(
        "the errors of the ops add up to {:.2g} of the energy of the outputs, {:.2g} was "
        "measured: the estimate that the search starts from is poor here",
        tuned.estimate.estimated, tuned.estimate.measured));
  if (!tuned.outcome.is_reached)
    throw Error("tune", options.flow.model,
                fmt::format("the goal was not reached in {} evaluations; the nearest, {}, was "
                            "written; lower the goal, give more --trials, or try --effort high "
                            "of `octet quantize` with that --config",
                            tuned.outcome.trials.size(), figures_of(best, tuned.metric)));
}

}  // namespace

void add_tune_command(CLI::App& app) {
  add_command<TuneOptions>(
      app, "tune",
      "Find mixed precision for an accuracy or a size, op by op; mpirun shares the data among "
      "processes",
      [](TuneOptions& options) {
        in_processes([&](Processes& processes) { run_tune(options, processes); });
      });
}

}  // namespace octet

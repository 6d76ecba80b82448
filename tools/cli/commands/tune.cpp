// Implements octet tune, which searches a mixed precision that meets an accuracy goal.
#include <algorithm>

#include <fmt/format.h>

#include "annotate/compare/compare.h"
#include "annotate/compare/weights.h"
#include "backends/registry.h"
#include "core/base/error.h"
#include "core/pt2/writer.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/compare/report.h"
#include "tools/cli/processes/processes.h"
#include "tools/cli/quantize/report_file.h"
#include "tools/cli/tune/trials.h"
#include "tools/cli/tune/tuner.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

std::string json_file(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The number of calibration batches for the report.
constexpr size_t kReportBatches = 4;

// The report of `octet compare` for the result, with all trials and the Pareto front.
Json report_of(const Graph& original, const Tuned& tuned, const TuneOptions& options) {
  SampleData data = sample_data(options.data.calibration, options.data.max_batches);
  data.end = std::min(data.end, kReportBatches);
  ComparisonReport report{.title = options.flow.model,
                          .subtitle = options.flow.quantizer + ", tuned",
                          .subject = &tuned.quantized,
                          .metric = tuned.metric};
  report.comparison = shadow(original, tuned.quantized, source_of(data),
                             {.metric = read_metric(options.metric).measure, .histograms = true});
  report.weights = compare_weights(original, tuned.quantized);
  Json json = compare_json(report);
  json["kind"] = "tune";
  json["trials"] = Json::array();
  for (const Trial& trial : tuned.outcome.trials) json["trials"].push_back(to_json(trial));
  json["pareto"] = Json::array();
  for (size_t index : pareto_front(tuned.outcome.trials)) {
    Json point = to_json(tuned.outcome.trials[index]);
    point["chosen"] = index == tuned.outcome.best;
    json["pareto"].push_back(std::move(point));
  }
  return json;
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
  if (!options.report.empty()) write_page_file(options.report, report_of(original, tuned, options));
  write_text_file(options.save_config, json_file(tuned.config));
  write_pt2(tuned.quantized, options.output);
  log_line(fmt::format("{}: {}", best.label, figures_of(best, tuned.metric)));
  log_line(fmt::format("{} evaluations on {}", tuned.outcome.trials.size(), tuned.batches));
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
      "Minimize float ops for an accuracy goal, op by op; mpirun shares the data among processes",
      [](TuneOptions& options) {
        in_processes([&](Processes& processes) { run_tune(options, processes); });
      });
}

}  // namespace octet

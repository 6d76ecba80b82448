// octet tune: mixed precision until the outputs are good enough.
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "annotate/compare/compare.h"
#include "annotate/compare/weights.h"
#include "backends/registry.h"
#include "core/base/error.h"
#include "core/pt2/tensor_file.h"
#include "core/pt2/writer.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/compare/report.h"
#include "tools/cli/processes/peers.h"
#include "tools/cli/quantize/report_file.h"
#include "tools/cli/tune/trial_file.h"
#include "tools/cli/tune/tuner.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

struct TuneCommand {
  TuneOptions tune;
  std::string output, config, report, metric;
  std::string effort = "default";
};

std::string json_file(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Of the calibration data, for the report.
constexpr size_t kReportBatches = 4;

// What `octet compare` says of the result, with all trials and the front.
Json report_of(const Graph& original, const Tuned& tuned, const TuneOptions& options) {
  const BatchReader reader(options.calibration);
  ComparisonReport report{.title = options.flow.model,
                          .subtitle = options.flow.quantizer + ", tuned",
                          .subject = &tuned.quantized,
                          .metric = options.metric.name};
  const BatchSource data = [&reader,
                            next = size_t{0}]() mutable -> std::optional<std::vector<c10::IValue>> {
    return next == std::min(kReportBatches, reader.size()) ? std::nullopt
                                                           : std::optional(reader.at(next++));
  };
  report.comparison = shadow(original, tuned.quantized, data,
                             {.metric = options.metric.measure, .histograms = true});
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

void run_tune(TuneCommand& command, Processes& processes) {
  ProcessPeers peers(processes);
  const bool is_first = processes.rank() == 0;
  for (const std::string& path : {command.output, command.config, command.report})
    if (!path.empty() && is_first) check_writable(path);
  const Graph original = read_model(command.tune.flow);
  command.tune.metric = read_metric(command.metric);
  command.tune.has_effort = command.effort == "high";
  const Tuned tuned = tune(original, command.tune, peers.get());
  if (!is_first) return;
  const Trial& best = tuned.outcome.trials[tuned.outcome.best];
  if (!command.report.empty())
    write_page_file(command.report, report_of(original, tuned, command.tune));
  write_text_file(command.config, json_file(tuned.config));
  write_pt2(tuned.quantized, command.output);
  log_line(fmt::format("{}: {}", best.label, figures_of(best, command.tune.metric.name)));
  log_line(fmt::format("{} evaluations on {}", tuned.outcome.trials.size(), tuned.batches));
  if (!tuned.estimate.is_trusted())
    log_warning(
        fmt::format("the ops' errors add up to {:.2g} of the outputs' energy, {:.2g} was measured: "
                    "the estimate "
                    "that the search begins with is poor here",
                    tuned.estimate.estimated, tuned.estimate.measured));
  if (!tuned.outcome.is_reached)
    throw Error(
        "tune", command.tune.flow.model,
        fmt::format("the goal is not reached in {} evaluations, the nearest is {}, which "
                    "was written; lower the goal, give more --trials, or try --effort high "
                    "of `octet quantize` with that --config",
                    tuned.outcome.trials.size(), figures_of(best, command.tune.metric.name)));
}

}  // namespace

void add_tune_command(CLI::App& app) {
  auto command = std::make_shared<TuneCommand>();
  CLI::App* tune = app.add_subcommand(
      "tune",
      "Leave as little float as it takes, op by op, for outputs as near to the float program's as "
      "wanted; mpirun shares the data among processes");
  TuneOptions& options = command->tune;
  add_flow_options(*tune, options.flow);
  add_training_mode_option(*tune, options.flow);
  tune->add_option("--calibration", options.calibration, "torch.save of a list of input tuples")
      ->required();
  tune->add_option("--evaluate", options.evaluate,
                   "Data like --calibration's for the evaluations; else the last calibration "
                   "batches are held out for that");
  tune->add_option("--labels", options.labels,
                   "torch.save of a tensor with the class of each sample of that data");
  tune->add_option("--min-sqnr", options.least_sqnr_db,
                   "Wanted: at least so many dB of the outputs, in the median over batches");
  tune->add_option("--max-drop", options.most_drop,
                   "Wanted: at most this share of the samples lost, 0.01 for one of a hundred; "
                   "needs --labels");
  add_metric_option(*tune, command->metric);
  tune->add_option("--min-metric", options.least_metric,
                   "Wanted: at least so much of --metric, in the mean over batches");
  tune->add_option("--max-latency", options.most_latency,
                   "Wanted too: milliseconds of a run on --backend")
      ->check(CLI::PositiveNumber);
  tune->add_option("--backend", options.backend,
                   "Time each trial there, and count time instead of float ops")
      ->check(CLI::IsMember(backend_names()));
  tune->add_option("--threads", options.threads, "Threads of these runs")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  tune->add_option("--trials", options.most_trials, "At most so many whole evaluations")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  tune->add_option("--effort", command->effort,
                   "high: try accuracy passes for single ops, too, which cost the program nothing "
                   "and tuning some seconds to minutes a trial")
      ->check(CLI::IsMember({"default", "high"}))
      ->capture_default_str();
  tune->add_option("--checkpoint", options.checkpoint,
                   "A file with the trials made: a run that was broken off goes on from there");
  tune->add_option("--output", command->output, "The quantized .pt2 to write")->required();
  tune->add_option(
          "--save-config", command->config,
          "Where the settings found go, for --config of `octet quantize`: a .json to write")
      ->required();
  tune->add_option("--report", command->report,
                   "Write all trials, the front and each op's errors: F.html, F.json or "
                   "F.model-explorer.json")
      ->check([](const std::string& path) {
        return has_suffix(path, ".json") || has_suffix(path, ".html")
                   ? std::string()
                   : "want a name that ends in .html or .json";
      });
  tune->callback([command] {
    Processes processes;
    if (processes.rank() != 0) set_silent();
    processes.gather([&] {
      run_tune(*command, processes);
      return std::string();
    });
  });
}

}  // namespace octet

#include "tools/quantize/effort_options.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/graph/observe_op.h"
#include "core/pt2/tensor_file.h"
#include "tools/common/messages.h"
#include "tools/common/signals.h"
#include "tools/quantize/effort_checkpoint.h"
#include "tools/quantize/flow.h"
#include "tools/quantize/pass_rows.h"

namespace octet {
namespace {

constexpr size_t kLeastBatches = 4;

// Whether a layer norm makes the value, looked at through observer nodes and views.
bool is_of_norm(const Value* value) {
  constexpr int kFar = 16;
  static const std::vector<std::string> kViews = {"aten.view",      "aten.reshape", "aten.permute",
                                                  "aten.transpose", "aten.flatten", "aten.dropout",
                                                  "aten.contiguous"};
  for (int i = 0; i < kFar; ++i) {
    value = through_observers(value);
    const Node* node = value == nullptr ? nullptr : value->producer();
    if (node == nullptr) return false;
    if (node->is("aten.layer_norm")) return true;
    const bool is_view = std::any_of(kViews.begin(), kViews.end(),
                                     [&](const std::string& op) { return node->is(op); });
    if (!is_view) return false;
    value = node->inputs().front();
  }
  return false;
}

bool reads_norm(const Node& node) {
  const std::vector<Value*> inputs = node.inputs();
  return std::any_of(inputs.begin(), inputs.end(), is_of_norm);
}

// What the smoothing of --effort default may change: layer norms and what reads them.
bool is_at_norm(const Node& node) { return node.is("aten.layer_norm") || reads_norm(node); }

bool is_product(const Node& node) {
  return node.is("aten.linear") || node.is("aten.addmm") || node.is("aten.mm") ||
         node.target().starts_with("aten.conv");
}

}  // namespace

bool smooths_by_default(const ObservedGraph& observed, const EffortOptions& options,
                        const QuantizeFlow& flow, size_t batches) {
  if (options.effort != "default" || !options.passes.empty() || flow.is_compat() ||
      !flow.recorded.empty() || batches < kLeastBatches || !needs_calibration(observed))
    return false;
  for (const Node* node : observed.graph.nodes()) {
    if (!is_product(*node)) continue;
    for (const Value* input : node->inputs())
      if (is_observer_node(input->producer()) && is_of_norm(input)) return true;
  }
  return false;
}

void add_effort_options(CLI::App& command, EffortOptions& options) {
  CLI::Option* effort =
      command
          .add_option(
              "--effort", options.effort,
              fmt::format("none: calibration alone; default: smoothing too, where linears read "
                          "layer norms; high: more calibration time for accuracy, the same as "
                          "--passes {}",
                          [] {
                            std::vector<std::string_view> names;
                            for (const AccuracyPass pass : high_effort_passes())
                              names.push_back(name_of(pass));
                            return fmt::format("{}", fmt::join(names, ","));
                          }()))
          ->check(CLI::IsMember({"none", "default", "high"}))
          ->capture_default_str();
  command
      .add_option(
          "--passes", options.passes,
          fmt::format("Accuracy passes of your choice, in any order, with commas between: {}",
                      fmt::join(accuracy_pass_names(), ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(accuracy_pass_names()))
      ->allow_extra_args(false)
      ->excludes(effort);
  command.add_option("--checkpoint", options.checkpoint,
                     "A file that --effort high or --passes keep their work in, pass by pass; the "
                     "same command goes on from it and gives the same bits");
}

std::vector<AccuracyPass> passes_of(const EffortOptions& options) {
  if (!options.is_asked_for()) return {};
  return options.passes.empty() ? high_effort_passes()
                                : parse_accuracy_passes(options.passes, "--passes");
}

void check_effort_options(const EffortOptions& options, bool has_calibration, bool is_compat) {
  if (!options.is_asked_for() && !options.checkpoint.empty())
    throw CLI::ValidationError(
        "--checkpoint",
        "keeps what accuracy passes did; give --effort high or --passes too, or leave it out");
  if (!options.is_asked_for()) return;
  const std::string name = options.passes.empty() ? "--effort high" : "--passes";
  if (is_compat)
    throw CLI::ValidationError(
        name, "changes weights and ranges, which --compat torchao fixes; leave one of them out");
  if (!has_calibration)
    throw CLI::ValidationError(
        name, "reads the calibration data several times; give --calibration DATA.pt");
}

void calibrate_with_effort(ObservedGraph& observed, const EffortData& data,
                           const EffortOptions& options, const QuantizeFlow& flow,
                           Progress& progress, Report& report, Peers* peers) {
  EffortJournal journal;
  std::string run;
  if (!options.checkpoint.empty()) {
    run = describe_run(flow, data, options);
    journal = load_effort(options.checkpoint, run);
    const auto kept = [&](const EffortJournal& now) {
      std::vector<std::string> names;
      for (const PassOutcome& outcome : now.outcomes) names.push_back(outcome.pass);
      return fmt::format("{}", fmt::join(names, ", "));
    };
    if (!journal.outcomes.empty())
      log_line(fmt::format("continued from {}: behind {}", options.checkpoint, kept(journal)));
    journal.added = [&options, &run, kept, peers](const EffortJournal& now) {
      if (peers != nullptr && peers->rank() > 0) return;
      save_effort(options.checkpoint, run, now);
      say_when_interrupted(
          fmt::format("{} holds what was done ({}), and the same command goes on from it",
                      options.checkpoint, kept(now)));
    };
  }
  const DataOpener open = [&data] {
    const auto reader = std::make_shared<BatchReader>(data.file);
    return [reader, batches = data.batches, next = size_t{0}]() mutable {
      return next == batches ? std::nullopt : std::optional(reader->at(next++));
    };
  };
  const auto advance = [&](std::string_view stage, size_t done, size_t total) {
    total == 0 ? progress.begin(stage) : progress.advance(done, total);
  };
  const bool is_default = !options.is_asked_for();
  const std::vector<AccuracyPass> passes =
      is_default ? std::vector{AccuracyPass::kSmooth} : passes_of(options);
  const std::optional<PassRows> rows =
      flow.config.empty() ? std::nullopt : read_pass_rows(flow.config, passes);
  PassFilter applies;
  if (rows || is_default)
    applies = [&](AccuracyPass pass, const Node& node) {
      return (!rows || rows->applies(pass, node)) && (!is_default || is_at_norm(node));
    };
  if (rows) {
    for (const std::string& row : rows->unused_rows(observed.graph))
      report.note(fmt::format("passes: {} of {} fits nothing in the model", row, flow.config));
  }
  const std::vector<EffortStage> stages =
      calibrate_with_passes(observed, open, data.batches, passes, report, advance,
                            options.checkpoint.empty() ? nullptr : &journal, applies, peers);
  double seconds = 0;
  std::vector<std::string> parts;
  for (const EffortStage& stage : stages) {
    parts.push_back(fmt::format("{} {:.1f} s", stage.name, stage.seconds));
    seconds += stage.seconds;
  }
  log_line(fmt::format("effort: {:.1f} s: {}", seconds, fmt::join(parts, ", ")));
}

}  // namespace octet

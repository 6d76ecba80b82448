#include "tools/cli/quantize/effort_plan.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/pt2/tensor_file.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/common/signals.h"
#include "tools/cli/quantize/effort_checkpoint.h"
#include "tools/cli/quantize/pass_rows.h"

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

// Whether --effort default smooths (kSmooth) what layer norms hand to quantized linears and
// convolutions, and nothing else: the program has such, calibration runs here on 4 batches or more,
// a quarter of which is held out, and neither --compat nor --recorded fixes what it gives.
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

bool has(const std::vector<AccuracyPass>& passes, AccuracyPass pass) {
  return std::find(passes.begin(), passes.end(), pass) != passes.end();
}

// The file, or what stands on top of it.
std::string place_of(const QuantizeFlow& flow) {
  return flow.config.empty() ? "the settings" : flow.config;
}

void check_rows(const QuantizeFlow& flow, size_t batches) {
  const char* against = flow.is_compat()         ? "--compat torchao fixes"
                        : !flow.recorded.empty() ? "--recorded fixes"
                                                 : nullptr;
  if (against != nullptr)
    throw Error(
        "quantize", place_of(flow) + ": /effort",
        fmt::format("changes weights and ranges, which {}; leave one of them out", against));
  if (batches == 0)
    throw Error("quantize", place_of(flow) + ": /effort",
                "reads the calibration data several times, got none; give --calibration DATA.pt");
}

void note_unused(const PassRows& rows, const char* table, const ObservedGraph& observed,
                 const QuantizeFlow& flow, std::vector<std::string>& notes) {
  for (const std::string& row : rows.unused_rows(observed.graph))
    notes.push_back(
        fmt::format("{}: {} of {} fits nothing in the model", table, row, place_of(flow)));
}

}  // namespace

EffortPlan plan_effort(const ObservedGraph& observed, const EffortOptions& options,
                       const QuantizeFlow& flow, size_t batches) {
  EffortPlan plan;
  std::vector<AccuracyPass> everywhere = passes_of(options);
  const bool smooths = smooths_by_default(observed, options, flow, batches);
  if (smooths) everywhere = {AccuracyPass::kSmooth};
  plan.passes = everywhere;
  const std::optional<PassRows> effort = read_effort_rows(flow.config, flow.settings);
  if (effort) {
    check_rows(flow, batches);
    for (const AccuracyPass pass : effort->all())
      if (!has(plan.passes, pass)) plan.passes.push_back(pass);
    note_unused(*effort, "effort", observed, flow, plan.notes);
  }
  const std::optional<PassRows> rows =
      flow.config.empty() ? std::nullopt : read_pass_rows(flow.config, plan.passes);
  if (rows) note_unused(*rows, "passes", observed, flow, plan.notes);
  if (!rows && !effort && !smooths) return plan;
  plan.applies = [=](AccuracyPass pass, const Node& node) {
    if (rows && !rows->applies(pass, node)) return false;
    const std::vector<AccuracyPass>* own = effort ? effort->find(node) : nullptr;
    if (own != nullptr && (own->empty() || has(*own, pass))) return !own->empty();
    return has(everywhere, pass) && (!smooths || is_at_norm(node));
  };
  return plan;
}

void calibrate_with_effort(ObservedGraph& observed, const EffortData& data, const EffortPlan& plan,
                           const EffortOptions& options, const QuantizeFlow& flow,
                           Progress& progress, Report& report, Peers* peers, EffortMemory* memory) {
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
  for (const std::string& note : plan.notes) report.note(note);
  const std::vector<EffortStage> stages = calibrate_with_passes(
      observed, open, data.batches, plan.passes, report, advance,
      options.checkpoint.empty() ? nullptr : &journal, plan.applies, peers, memory);
  double seconds = 0;
  std::vector<std::string> parts;
  for (const EffortStage& stage : stages) {
    parts.push_back(fmt::format("{} {:.1f} s", stage.name, stage.seconds));
    seconds += stage.seconds;
  }
  log_line(fmt::format("effort: {:.1f} s: {}", seconds, fmt::join(parts, ", ")));
}

}  // namespace octet

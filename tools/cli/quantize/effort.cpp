#include "tools/cli/quantize/effort.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/pt2/tensor_file.h"
#include "tools/cli/common/files.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/common/signals.h"
#include "tools/cli/quantize/pass_rows.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

// The checkpoint is a tuple of tensors. The first is JSON as bytes; its "tensors" describe the
// others, pass by pass.
constexpr std::string_view kFormat = "octet effort 2", kAnyFormat = "octet effort ";

Json to_json(const PassOutcome& outcome) {
  Json tensors = Json::array(), ranges = Json::array(), entries = Json::array();
  for (const PassOutcome::NewTensor& tensor : outcome.tensors)
    tensors.push_back({tensor.layer, tensor.is_bias});
  for (const PassOutcome::NewRange& range : outcome.ranges)
    ranges.push_back({range.group, range.min, range.max});
  for (const ReportEntry& entry : outcome.report.entries())
    entries.push_back({entry.stage, entry.node, entry.target, entry.module, entry.reason});
  return {{"pass", outcome.pass},
          {"tensors", tensors},
          {"ranges", ranges},
          {"entries", entries},
          {"notes", outcome.report.notes()},
          {"details", outcome.report.details()}};
}

// next: position of the next tensor in the file.
PassOutcome from_json(const Json& json, const std::vector<c10::IValue>& values, size_t& next) {
  PassOutcome outcome;
  outcome.pass = json.at("pass").get<std::string>();
  for (const Json& tensor : json.at("tensors"))
    outcome.tensors.push_back(
        {tensor.at(0).get<size_t>(), tensor.at(1).get<bool>(), values.at(next++).toTensor()});
  for (const Json& range : json.at("ranges"))
    outcome.ranges.push_back(
        {range.at(0).get<size_t>(), range.at(1).get<float>(), range.at(2).get<float>()});
  for (const Json& entry : json.at("entries"))
    outcome.report.add({entry.at(0), entry.at(1), entry.at(2), entry.at(3), entry.at(4)});
  for (const Json& note : json.at("notes")) outcome.report.note(note.get<std::string>());
  for (const Json& detail : json.at("details")) outcome.report.detail(detail.get<std::string>());
  return outcome;
}

// The requested passes, in any order.
std::vector<AccuracyPass> passes_of(const EffortOptions& options) {
  if (!options.is_asked_for()) return {};
  return options.passes.empty() ? high_effort_passes()
                                : parse_accuracy_passes(options.passes, "--passes");
}

constexpr size_t kLeastBatches = 4;

// Whether a layer norm computes the value, apart from observer nodes and views in between.
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
    const bool is_view =
        std::ranges::any_of(kViews, [&](const std::string& op) { return node->is(op); });
    if (!is_view) return false;
    value = node->inputs().front();
  }
  return false;
}

bool reads_norm(const Node& node) {
  const std::vector<Value*> inputs = node.inputs();
  return std::ranges::any_of(inputs, is_of_norm);
}

// Whether the smoothing of --effort default may change the node: layer norms and their readers.
bool is_at_norm(const Node& node) { return node.is("aten.layer_norm") || reads_norm(node); }

bool is_product(const Node& node) {
  return node.is("aten.linear") || node.is("aten.addmm") || node.is("aten.mm") ||
         node.target().starts_with("aten.conv");
}

// Whether --effort default smooths (kSmooth) the outputs of layer norms that quantized linears and
// convolutions read. It needs such ops, at least 4 calibration batches, and neither --compat nor
// --recorded, which fix weights and ranges.
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
  return std::ranges::find(passes, pass) != passes.end();
}

// The subject of errors about settings.
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
        fmt::format("{}: {} of {} matches nothing in the model", table, row, place_of(flow)));
}

// run: of describe_run(). Writes the file whole or not at all.
void save_effort(const std::string& file, const std::string& run, const EffortJournal& journal) {
  Json passes = Json::array();
  for (const PassOutcome& outcome : journal.outcomes) passes.push_back(to_json(outcome));
  const std::string text = dump_json(Json{{"format", kFormat}, {"run", run}, {"passes", passes}},
                                     -1, true, Json::error_handler_t::replace);
  std::vector<c10::IValue> values = {tensor_of_text(text)};
  for (const PassOutcome& outcome : journal.outcomes)
    for (const PassOutcome::NewTensor& tensor : outcome.tensors) values.emplace_back(tensor.value);
  write_outputs(file, values);
}

// Returns an empty journal if there is no such file.
EffortJournal load_effort(const std::string& file, const std::string& run) {
  EffortJournal journal;
  if (!std::filesystem::exists(file)) return journal;
  const std::vector<c10::IValue> values = read_inputs(file);
  const Json json = values.empty() || !values[0].isTensor()
                        ? Json()
                        : parse_json<Json>(text_of_tensor(values[0].toTensor()), nullptr,
                                           /*allow_exceptions=*/false);
  const std::string format = json.is_object() ? json.value("format", "") : "";
  if (!format.starts_with(kAnyFormat))
    throw Error("quantize", file,
                "not a checkpoint of octet quantize; give another name, or remove it");
  if (format != kFormat)
    throw Error("quantize", file,
                "is a checkpoint of another version of Octet; remove it to start over");
  if (json.value("run", "") != run)
    throw Error("quantize", file,
                fmt::format("belongs to another run, got {}, want {}; remove it to start over",
                            json.value("run", ""), run));
  try {
    size_t next = 1;
    for (const Json& pass : json.at("passes"))
      journal.outcomes.push_back(from_json(pass, values, next));
  } catch (const std::exception&) {
    throw Error("quantize", file, "is damaged; remove it to start over");
  }
  return journal;
}

}  // namespace

Options options_of(EffortOptions& options) {
  std::vector<std::string_view> high;
  for (const AccuracyPass pass : high_effort_passes()) high.push_back(name_of(pass));
  return {
      Option{
          "effort", &options.effort,
          fmt::format("none: only calibration; default: also smoothing, where linears read layer "
                      "norms; high: more calibration time for accuracy, the same as --passes {}",
                      fmt::join(high, ","))}
          .one_of({"none", "default", "high"})
          .without_key(),
      Option{"passes", &options.passes,
             fmt::format("Accuracy passes to run, in any order, separated by commas: {}",
                         fmt::join(accuracy_pass_names(), ", "))}
          .one_of(accuracy_pass_names())
          .excludes("effort")
          .without_key(),
      Option{"checkpoint", &options.checkpoint,
             "A file in which --effort high and --passes save their work after each pass; the same "
             "command resumes from it, with the same result"}
          .file()
          .without_key(),
  };
}

void check_effort_options(const EffortOptions& options, bool has_calibration, bool is_compat) {
  if (!options.is_asked_for() && !options.checkpoint.empty())
    throw CLI::ValidationError(
        "--checkpoint",
        "keeps the work of accuracy passes; give --effort high or --passes too, or leave it out");
  if (!options.is_asked_for()) return;
  const std::string name = options.passes.empty() ? "--effort high" : "--passes";
  if (is_compat)
    throw CLI::ValidationError(
        name, "changes weights and ranges, which --compat torchao fixes; leave one of them out");
  if (!has_calibration)
    throw CLI::ValidationError(
        name, "reads the calibration data several times; give --calibration DATA.pt");
}

std::string describe_run(const QuantizeFlow& flow, const SampleData& data,
                         const EffortOptions& options) {
  std::vector<std::string> passes;
  for (const AccuracyPass pass : passes_of(options)) passes.emplace_back(name_of(pass));
  std::ranges::sort(passes);
  QuantizeFlow settings = flow;
  return fmt::format("model{}; data{}, {} batches; {}; passes {}", checksum_of(flow.model),
                     checksum_of(data.file), data.size(), describe(options_of(settings)),
                     fmt::join(passes, ", "));
}

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

void calibrate_with_effort(ObservedGraph& observed, const SampleData& data, const EffortPlan& plan,
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
      log_line(fmt::format("resumed from {} after {}", options.checkpoint, kept(journal)));
    journal.added = [&options, &run, kept, peers](const EffortJournal& now) {
      if (peers != nullptr && peers->rank() > 0) return;
      save_effort(options.checkpoint, run, now);
      say_when_interrupted(
          fmt::format("{} holds the finished passes ({}); the same command resumes from it",
                      options.checkpoint, kept(now)));
    };
  }
  const DataOpener open = [&data] { return source_of(data); };
  const auto advance = [&](std::string_view stage, size_t done, size_t total) {
    total == 0 ? progress.begin(stage) : progress.advance(done, total);
  };
  for (const std::string& note : plan.notes) report.note(note);
  const std::vector<EffortStage> stages = calibrate_with_passes(
      observed, open, data.size(), plan.passes, report, advance,
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

// octet quantize: a float .pt2 becomes a q/dq .pt2.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/convert/quantized_io.h"
#include "annotate/observed/annotation_json.h"
#include "annotate/observed/observer_state.h"
#include "core/base/error.h"
#include "core/pt2/tensor_file.h"
#include "core/pt2/writer.h"
#include "tools/commands/command.h"
#include "tools/commands/report_file.h"
#include "tools/common/messages.h"
#include "tools/common/standard_streams.h"
#include "tools/processes/peers.h"
#include "tools/quantize/data_checks.h"
#include "tools/quantize/effort_options.h"
#include "tools/quantize/flow.h"
#include "tools/quantize/pass_rows.h"
#include "tools/quantize/quality.h"
#include "tools/quantize/refusals.h"

namespace octet {
namespace {

struct QuantizeOptions {
  QuantizeFlow flow;
  EffortOptions effort;
  std::string output, calibration, state, report, dump_annotations, evaluate, labels;
  std::optional<size_t> hold_out;
  bool strict = false;
  bool reference = false;
  bool quantized_io = false;
  bool drops_example_inputs = false;
  std::vector<size_t> quantized_inputs, quantized_outputs;

  bool has_quantized_io() const {
    return quantized_io || !quantized_inputs.empty() || !quantized_outputs.empty();
  }
};

// Refuses what cannot be written before the work begins, so that nothing is left behind.
void check_outputs(const QuantizeOptions& options) {
  for (const std::string& path : {options.output, options.report, options.dump_annotations})
    if (!path.empty()) check_writable(path);
  if (!options.report.empty() && options.report == options.dump_annotations)
    throw Error("quantize", options.report,
                "named by --report and by --dump-annotations, want a file for each");
}

// "a.json,b.json" -> {"a.json", "b.json"}
std::vector<std::filesystem::path> split_paths(const std::string& text) {
  std::vector<std::filesystem::path> paths;
  std::istringstream stream(text);
  for (std::string path; std::getline(stream, path, ',');)
    if (!path.empty()) paths.emplace_back(path);
  if (paths.empty())
    throw Error("quantize", "--state",
                fmt::format("no file, got \"{}\", want S.json or A.json,B.json", text));
  return paths;
}

// Of the calibration data: how many batches there are, and how many of the last ones no observer
// sees.
struct Batches {
  size_t all = 0, held_out = 0;
};

size_t held_out_of(const QuantizeOptions& options, size_t batches) {
  if (options.hold_out && *options.hold_out >= batches)
    throw Error("quantize", "--hold-out",
                fmt::format("is {}, want less than the {} batches of {}", *options.hold_out,
                            batches, options.calibration));
  if (options.hold_out) return *options.hold_out;
  // torchao's choices are made of all data; recorded parts have a record for each batch.
  const bool takes_all =
      options.flow.is_compat() || !options.evaluate.empty() || !options.flow.recorded.empty();
  return takes_all ? 0 : default_held_out(batches);
}

// Nothing without data.
std::optional<Evaluation> evaluation_of(const QuantizeOptions& options, const Batches& batches) {
  constexpr size_t kMost = 8;
  if (!options.evaluate.empty())
    return Evaluation{options.evaluate, 0, "all of " + options.evaluate, options.labels};
  if (options.calibration.empty() || !options.flow.recorded.empty()) return std::nullopt;
  const size_t count = batches.held_out > 0 ? batches.held_out : std::min(batches.all, kMost);
  const std::string which =
      count == batches.all
          ? fmt::format("the {} calibration batches", count)
          : fmt::format("the last {} of {} calibration batches", count, batches.all);
  const char* how = batches.held_out > 0
                        ? ", held out"
                        : ", which calibrated too; --evaluate DATA.pt takes others";
  return Evaluation{options.calibration, batches.all - count, which + how, options.labels};
}

// The stages of the work, with what they cost. smooths: by default.
std::vector<Progress::Stage> stages_of(const QuantizeOptions& options, const Batches& batches,
                                       const std::optional<Evaluation>& evaluation, bool smooths) {
  std::vector<Progress::Stage> stages;
  const auto add_calibration = [&](const std::vector<AccuracyPass>& passes) {
    for (const PlannedStage& stage : planned_stages(passes, batches.all - batches.held_out))
      stages.push_back({std::string(stage.name), stage.cost});
  };
  const auto add_evaluation = [&] {
    if (evaluation)
      stages.push_back({kEvaluateStage,
                        kEvaluateCost * static_cast<double>(BatchReader(evaluation->data).size() -
                                                            evaluation->first)});
  };
  if (batches.all > 0)
    add_calibration(smooths ? std::vector{AccuracyPass::kSmooth} : std::vector<AccuracyPass>());
  if (options.effort.is_asked_for()) {
    add_evaluation();
    add_calibration(passes_of(options.effort));
  }
  add_evaluation();
  return stages;
}

void fill_observers(ObservedGraph& observed, const QuantizeOptions& options, const Batches& batches,
                    bool smooths, Progress& progress, Report& report, Peers* peers) {
  if (options.effort.is_asked_for() || smooths) {
    calibrate_with_effort(observed, {options.calibration, batches.all - batches.held_out},
                          options.effort, options.flow, progress, report, peers);
    return;
  }
  if (!options.flow.config.empty()) read_pass_rows(options.flow.config, {});
  if (!options.calibration.empty()) {
    calibrate_from_file(observed, options.calibration, options.flow.recorded, progress,
                        DataPart{.held_out = batches.held_out, .peers = peers});
  } else if (!options.state.empty()) {
    const StateFit fit = options.flow.config.empty() ? StateFit::kWhole : StateFit::kPart;
    for (const std::string& note : load_observer_states(observed, split_paths(options.state), fit))
      report.note(note);
  } else {
    observe_constants(observed);
    if (needs_calibration(observed))
      throw Error(
          "quantize", options.flow.model,
          "static quantization needs data, got none; give --calibration DATA.pt or --state S.json");
  }
}

// --quantized-inputs and --quantized-outputs say which; a side without a list is whole with
// --quantized-io and left alone without it.
QuantizedIo quantize_border(Graph& graph, const QuantizeOptions& options, Report& report) {
  QuantizedIoOptions wanted;
  if (!options.quantized_io || !options.quantized_inputs.empty())
    wanted.inputs = options.quantized_inputs;
  if (!options.quantized_io || !options.quantized_outputs.empty())
    wanted.outputs = options.quantized_outputs;
  Report own;
  QuantizedIo io = quantize_io(graph, wanted, own);
  for (const std::string& note : own.notes()) report.note(note);
  if (io.empty())
    throw Error("quantize", options.flow.model,
                fmt::format("--quantized-io: no input and no output of the program is quantized: "
                            "{}; leave the option out",
                            own.notes().empty() ? "none is a float tensor" : own.notes().front()));
  store_quantized_io(graph, io);
  return io;
}

// Counts the batches, and warns of what is odd about them.
Batches look_at_data(const QuantizeOptions& options) {
  if (options.calibration.empty()) return {};
  const BatchReader data(options.calibration);
  const Batches batches = {data.size(), held_out_of(options, data.size())};
  for (const std::string& line : find_odd_data(data)) log_warning(line);
  if (!options.evaluate.empty())
    for (const std::string& line : find_distant_data(data, BatchReader(options.evaluate)))
      log_warning(line);
  return batches;
}

// What the same calibration gives without the accuracy passes.
Graph quantize_plainly(const Graph& original, const QuantizeOptions& options,
                       const Batches& batches, Progress& progress, Peers* peers) {
  Report ignored;
  ObservedGraph observed = prepare_model(std::move(*clone(original)), options.flow, ignored);
  calibrate_from_file(observed, options.calibration, "", progress,
                      DataPart{.held_out = batches.held_out, .peers = peers});
  return convert_pt2e(std::move(observed), {}, ignored);
}

// Outputs that cannot be compared are an error where the comparison is asked for, else a note.
std::optional<Quality> measure(const Graph& original, const Graph& quantized,
                               const QuantizeOptions& options, const Evaluation& evaluation,
                               Progress& progress, Report& report, Peers* peers) {
  try {
    return evaluate(original, quantized, evaluation, progress, peers);
  } catch (const OtherFailed&) {
    throw;
  } catch (const std::exception& error) {
    if (!options.evaluate.empty() || !options.labels.empty()) throw;
    report.note(
        fmt::format("the outputs were not compared with the float program's: {}", error.what()));
    return std::nullopt;
  }
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

void check_options(const QuantizeOptions& options) {
  if (options.has_quantized_io()) check_free_standard_output("--quantized-io");
  check_outputs(options);
  if (!options.labels.empty() && options.evaluate.empty() && options.calibration.empty())
    throw Error("quantize", "--labels",
                "goes with --evaluate or --calibration; give the data whose classes these are");
  if (!options.flow.recorded.empty() &&
      (options.calibration.empty() || options.effort.is_asked_for()))
    throw Error(
        "quantize", "--recorded",
        "goes with --calibration and the default effort alone; leave out the other options");
}

void quantize(const QuantizeOptions& options, Processes& processes) {
  ProcessPeers all(processes);
  Peers* const peers = all.get();
  if (processes.rank() == 0) check_options(options);
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  const Batches batches = look_at_data(options);
  const std::optional<Evaluation> evaluation = evaluation_of(options, batches);
  Report report;
  const Graph original = read_model(options.flow);
  for (const std::string& line : find_quantized_ops(original)) log_warning(line);
  ObservedGraph observed = prepare_model(std::move(*clone(original)), options.flow, report);
  const bool smooths =
      smooths_by_default(observed, options.effort, options.flow, batches.all - batches.held_out);
  Progress progress(stages_of(options, batches, evaluation, smooths));
  Measured measured;
  if (evaluation && options.effort.is_asked_for()) {
    Report ignored;
    measured.before =
        measure(original, quantize_plainly(original, options, batches, progress, peers), options,
                *evaluation, progress, ignored, peers);
  }
  if (batches.all > 0 && !needs_calibration(observed))
    log_warning(
        "--calibration: nothing is observed in this mode; the data serves to compare outputs "
        "alone");
  fill_observers(observed, options, batches, smooths, progress, report, peers);
  std::string annotations;  // before convert uses the observers up
  if (!options.report.empty() || !options.dump_annotations.empty())
    annotations = annotations_to_json(observed);
  if (!options.dump_annotations.empty() && processes.rank() == 0)
    write_text_file(options.dump_annotations, annotations);
  ReportFile report_file(options.report, "quantize", options.flow);
  report_file.before_convert(observed, std::move(annotations));
  ConvertOptions convert_options;
  convert_options.compat = options.flow.compat;
  convert_options.reference_representation = options.reference;
  Graph converted = convert_pt2e(std::move(observed), convert_options, report);
  report_file.after_convert(converted, report);
  if (options.drops_example_inputs) drop_example_inputs(converted);
  const Weight weight = weigh(original, converted, report);
  if (evaluation)
    measured.now = measure(original, converted, options, *evaluation, progress, report, peers);
  if (processes.rank() != 0) return;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const nlohmann::ordered_json figures = quality_json(measured, weight, seconds);
  QuantizedIo io;
  if (options.has_quantized_io()) io = quantize_border(converted, options, report);
  report_file.write(report, figures);
  if (options.strict) check_strict(report, weight, options.flow.model);
  write_pt2(converted, options.output);
  log_refusals(report);
  for (const std::string& line : quality_lines(figures)) log_line(line);
  if (const std::string low = low_share(weight); !low.empty()) log_warning(low);
  log_example_inputs(converted);
  if (options.has_quantized_io()) print_json(to_json_text(io));
}

}  // namespace

void add_quantize_command(CLI::App& app) {
  auto options = std::make_shared<QuantizeOptions>();
  CLI::App* command = app.add_subcommand(
      "quantize",
      "Turn a float .pt2 into a quantized .pt2 that PyTorch loads and `octet lower` takes; mpirun "
      "shares the data among processes");
  add_flow_options(*command, options->flow);
  add_training_mode_option(*command, options->flow);
  accept_standard_output(
      command->add_option("--output", options->output, "The .pt2 to write; -: stdout"))
      ->required();
  CLI::Option* calibration = command->add_option("--calibration", options->calibration,
                                                 "torch.save of a list of input tuples");
  command
      ->add_option(
          "--state", options->state,
          "Observers' states that `octet calibrate` saved: S.json, or A.json,B.json to be merged")
      ->excludes(calibration);
  add_effort_options(*command, options->effort);
  add_print_after_option(*command);
  command->add_option("--evaluate", options->evaluate,
                      "Data like --calibration's, on which the outputs are compared with the float "
                      "program's; else the last "
                      "calibration batches are held out for that");
  command->add_option("--labels", options->labels,
                      "torch.save of a tensor with the class of each sample of that data: prints "
                      "the accuracy of both programs");
  command->add_option("--hold-out", options->hold_out,
                      "How many of the last calibration batches are held out; default: one of 8 "
                      "from 16 on, at most 8; none with --compat");
  add_report_option(*command, options->report);
  command
      ->add_option(
          "--dump-annotations", options->dump_annotations,
          "Write the specs of each edge and output, the sharing groups and their scales, as JSON")
      ->check([](const std::string& path) {
        return has_suffix(path, ".json") ? std::string() : "want a name that ends in .json";
      });
  command->add_flag("--drop-example-inputs", options->drops_example_inputs,
                    "Leave out the example inputs that torch.export.save kept in the file");
  command->add_flag(
      "--strict", options->strict,
      "Fail when a compute op stays float (with --mode dynamic or weight-only, one with weights), "
      "or less than 90 % of the multiply-accumulates that can be quantized are");
  CLI::Option* reference = command->add_flag(
      "--reference", options->reference,
      "Write integer arithmetic instead of quantize and dequantize ops, for reading and checking");
  command
      ->add_flag("--quantized-io", options->quantized_io,
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
  add_list("--quantized-inputs", options->quantized_inputs, "inputs");
  add_list("--quantized-outputs", options->quantized_outputs, "outputs");
  command->callback([options] {
    check_effort_options(options->effort, !options->calibration.empty(), options->flow.is_compat());
    Processes processes;
    if (processes.rank() != 0) set_silent();
    processes.gather([&] {
      quantize(*options, processes);
      return std::string();
    });
  });
}

}  // namespace octet

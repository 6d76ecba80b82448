#include "tools/cli/quantize/quantize.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "annotate/observed/annotation_json.h"
#include "annotate/observed/observer_state.h"
#include "annotate/reference/representation.h"
#include "backends/registry.h"
#include "core/base/error.h"
#include "core/passes/pass.h"
#include "lowering/lower.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/processes/processes.h"
#include "tools/cli/quantize/data_checks.h"

namespace octet {
namespace {

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

// Splits the data and warns about odd data.
SplitData look_at_data(const QuantizeRequest& request, const Graph& original) {
  constexpr size_t kMost = 8;
  // Without passes nothing is held out, because more batches improve ranges. Passes fit weights and
  // biases to the data, so only other data shows their gain. Recorded parts have a record for each
  // batch, so all batches are needed.
  const bool holds_out = request.effort.is_asked_for() && request.flow.recorded.empty();
  SplitData data = split(request.data, original, holds_out, kMost);
  if (!request.flow.recorded.empty() && request.data.evaluate.empty()) data.evaluation = {};
  if (!data.all.is_there()) return data;
  const SampleReader reader(data.all);
  for (const std::string& line : find_odd_data(reader)) log_warning(line);
  if (!request.data.evaluate.empty())
    for (const std::string& line : find_distant_data(reader, SampleReader(data.evaluation)))
      log_warning(line);
  return data;
}

// The stages of the work and their costs.
std::vector<Progress::Stage> stages_of(const QuantizeRequest& request, const SplitData& data,
                                       const EffortPlan& plan) {
  std::vector<Progress::Stage> stages;
  const auto add_calibration = [&](const std::vector<AccuracyPass>& passes) {
    for (const PlannedStage& stage : planned_stages(passes, data.calibration.size()))
      stages.push_back({std::string(stage.name), stage.cost});
  };
  const auto add_evaluation = [&] {
    if (data.evaluation.is_there())
      stages.push_back(
          {kEvaluateStage, kEvaluateCost * static_cast<double>(data.evaluation.size())});
  };
  if (request.effort.is_asked_for()) {
    add_calibration({});
    add_evaluation();
  }
  if (data.all.is_there()) add_calibration(plan.passes);
  if (request.stream) stages.push_back({std::string(kCalibrateStage), 4 * kEvaluateCost});
  add_evaluation();
  if (request.stream && !data.evaluation.is_there())
    stages.push_back({kEvaluateStage, kEvaluateCost});
  return stages;
}

void fill_observers(ObservedGraph& observed, const QuantizeRequest& request, const SampleData& data,
                    const EffortPlan& plan, Progress& progress, Report& report) {
  if (plan.has_passes()) {
    calibrate_with_effort(observed, data, plan, request.effort, request.flow, progress, report,
                          request.peers);
    return;
  }
  if (data.is_there()) {
    calibrate_from_file(observed, data, request.flow.recorded, progress, {.peers = request.peers});
  } else if (!request.state.empty()) {
    const StateFit fit = request.flow.config.empty() ? StateFit::kWhole : StateFit::kPart;
    for (const std::string& note : load_observer_states(observed, split_paths(request.state), fit))
      report.note(note);
  } else {
    observe_constants(observed);
    if (needs_calibration(observed))
      throw Error(
          "quantize", request.flow.model,
          "static quantization needs data, got none; give --calibration DATA.pt or --state S.json");
  }
}

void fill_from_stream(ObservedGraph& observed, const QuantizeRequest& request, SplitData& data,
                      Progress& progress) {
  progress.begin(kCalibrateStage);
  const size_t batches =
      calibrate(observed, request.stream, [&](size_t done) { progress.advance(done, 0); });
  const SampleData kept = kept_batches(request.kept, batches);
  if (kept.size() == batches)
    for (const std::string& line : find_odd_data(SampleReader(kept))) log_warning(line);
  if (!data.evaluation.is_there()) data.evaluation = kept;
  data.evaluation.labels = request.data.labels;
}

// --quantized-inputs and --quantized-outputs select tensors; without a list, --quantized-io selects
// all inputs or outputs.
QuantizedIo quantize_border(Graph& graph, const QuantizeRequest& request, Report& report) {
  QuantizedIoOptions wanted;
  if (!request.quantized_io || !request.quantized_inputs.empty())
    wanted.inputs = request.quantized_inputs;
  if (!request.quantized_io || !request.quantized_outputs.empty())
    wanted.outputs = request.quantized_outputs;
  Report own;
  QuantizedIo io = quantize_io(graph, wanted, own);
  for (const std::string& note : own.notes()) report.note(note);
  if (io.empty())
    throw Error("quantize", request.flow.model,
                fmt::format("--quantized-io: no input and no output of the program is quantized: "
                            "{}; leave the option out",
                            own.notes().empty() ? "none is a float tensor" : own.notes().front()));
  store_quantized_io(graph, io);
  return io;
}

// Quantizes with the same calibration, but without accuracy passes.
Graph quantize_plainly(const Graph& original, const QuantizeRequest& request,
                       const SampleData& data, Progress& progress) {
  Report ignored;
  ObservedGraph observed = prepare_model(std::move(*clone(original)), request.flow, ignored);
  calibrate_from_file(observed, data, "", progress, {.peers = request.peers});
  return convert_pt2e(std::move(observed), {}, ignored);
}

// If outputs cannot be compared, throws if the comparison was requested, and adds a note otherwise.
std::optional<Quality> measure(const Graph& original, const Graph& quantized,
                               const QuantizeRequest& request, const SampleData& data,
                               Progress& progress, Report& report) {
  try {
    return evaluate(original, quantized, data, progress, request.peers);
  } catch (const OtherFailed&) {
    throw;
  } catch (const std::exception& error) {
    if (!request.data.evaluate.empty() || !request.data.labels.empty()) throw;
    report.note(
        fmt::format("the outputs were not compared with the float program's: {}", error.what()));
    return std::nullopt;
  }
}

void check_request(const QuantizeRequest& request) {
  const DataOptions& data = request.data;
  check_effort_options(request.effort, !data.calibration.empty(), request.flow.is_compat());
  if (!data.labels.empty() && data.evaluate.empty() && data.calibration.empty() && !request.stream)
    throw Error("quantize", "--labels",
                "needs --evaluate or --calibration; give the data whose classes these are");
  if (!request.flow.recorded.empty() && (data.calibration.empty() || request.effort.is_asked_for()))
    throw Error(
        "quantize", "--recorded",
        "works only with --calibration and the default effort; leave out the other options");
  if (!request.for_backend.empty() && request.flow.mode != "static")
    throw Error("quantize", "--for-backend",
                fmt::format("got --mode {}, want static: what a backend does with operands that it "
                            "quantizes itself depends on the CPU; leave the option out",
                            request.flow.mode));
}

// Calibrates with the requested accuracy passes, and measures the same calibration without them.
ObservedGraph calibrated(const Graph& original, const QuantizeRequest& request, SplitData& data,
                         std::optional<Progress>& progress, Measured& measured, Report& report) {
  ObservedGraph observed = prepare_model(std::move(*clone(original)), request.flow, report);
  const EffortPlan plan =
      plan_effort(observed, request.effort, request.flow, data.calibration.size());
  progress.emplace(stages_of(request, data, plan));
  if (data.evaluation.is_there() && request.effort.is_asked_for()) {
    Report ignored;
    measured.before =
        measure(original, quantize_plainly(original, request, data.calibration, *progress), request,
                data.evaluation, *progress, ignored);
  }
  if ((data.all.is_there() || request.stream) && plan.passes.empty() &&
      !needs_calibration(observed))
    log_warning(
        "--calibration: nothing is observed in this mode; the data is only used to compare "
        "outputs");
  if (request.stream)
    fill_from_stream(observed, request, data, *progress);
  else
    fill_observers(observed, request, data.calibration, plan, *progress, report);
  return observed;
}

}  // namespace

Options options_of(QuantizeRequest& request) {
  return joined({
      options_of(request.flow),
      {
          Option{"output", &request.output, "The .pt2 to write; -: stdout"}.required().to_stdout(),
      },
      calibration_options(request.data, /*is_required=*/false),
      {
          Option{"state", &request.state,
                 "Observer states that `octet calibrate` saved: S.json, or A.json,B.json to merge "
                 "several"}
              .file()
              .excludes("calibration"),
      },
      options_of(request.effort),
      {print_after_option()},
      evaluation_options(request.data),
      {
          Option{"hold_out", &request.data.hold_out,
                 "How many of the last batches of --calibration are used for evaluation only; "
                 "default: 0, but with accuracy passes and at least 16 batches the last eighth, at "
                 "most 8"},
          report_option(request.report),
          Option{"dump_annotations", &request.dump_annotations,
                 "Write the specs of each edge and output, the sharing groups and their scales, as "
                 "JSON"}
              .ends_in({".json"})
              .output(),
          Option{"drop_example_inputs", &request.drops_example_inputs,
                 "Leave out the example inputs that torch.export.save kept in the file"},
          Option{"strict", &request.strict,
                 "Fail when a compute op stays float (with --mode dynamic or weight-only, one with "
                 "weights), or when less than 90 % of the multiply-accumulates that can be "
                 "quantized are"}
              .for_command(),
          Option{"reference", &request.reference,
                 "Write integer arithmetic instead of quantize and dequantize ops, for reading and "
                 "checking"},
          Option{"for_backend", &request.for_backend,
                 "Print the int8 share of this backend: what it will compute with integers, not "
                 "what is quantized (--mode static); default: onednn for --quantizer x86, xnnpack "
                 "for xnnpack and qnnpack"}
              .excludes("reference"),
          Option{
              "qdq", &request.qdq,
              "How quantize and dequantize are written: as ops of quantized_decomposed, which "
              "torch.ao defines and `octet lower` takes; affine: as ops of torchao, which `octet "
              "lower` takes too; native: as ATen ops, for PyTorch alone"}
              .one_of({"decomposed", "affine", "native"})
              .excludes("reference"),
          Option{"quantized_io", &request.quantized_io,
                 "Make inputs and outputs integer tensors where they are quantized; prints their "
                 "parameters as JSON"}
              .excludes("reference"),
          Option{"quantized_inputs", &request.quantized_inputs,
                 "--quantized-io for these inputs only: indices from 0, such as 0,2"}
              .between(0, 65535)
              .excludes("reference"),
          Option{"quantized_outputs", &request.quantized_outputs,
                 "--quantized-io for these outputs only: indices from 0, such as 0,2"}
              .between(0, 65535)
              .excludes("reference"),
      },
  });
}

namespace {

// The backend whose quantizer it is; "" if there is none in this build.
std::string backend_of(const std::string& quantizer) {
  const std::string backend = quantizer == "x86"                                 ? "onednn"
                              : quantizer == "xnnpack" || quantizer == "qnnpack" ? "xnnpack"
                                                                                 : "";
  const std::vector<std::string> known = backend_names();
  return std::ranges::find(known, backend) != known.end() ? backend : "";
}

// Lowers the program to count what runs in integers. One that cannot be lowered is an error only if
// the user named the backend.
void weigh_on_backend(const QuantizeRequest& request, QuantizeResult& result) {
  const bool is_asked_for = !request.for_backend.empty();
  const std::string backend =
      is_asked_for ? request.for_backend : backend_of(request.flow.quantizer);
  if (backend.empty()) return;
  // By default only where operands are integers before a backend sees them.
  if (!is_asked_for && (result.weight.int8_share == 0 || request.flow.mode != "static")) return;
  try {
    const UnwatchedPasses only_counting;
    Report report;
    const Supports supports = make_supports(backend);
    result.weight.backend_share =
        integer_share(lower(result.graph, supports, {}, report), supports);
    result.weight.backend = backend;
  } catch (const std::exception& error) {
    if (is_asked_for) throw;
    result.report.note(fmt::format("the int8 share of {} is unknown: {}", backend, error.what()));
  }
}

}  // namespace

QuantizeResult quantize_model(const QuantizeRequest& request) {
  check_request(request);
  if (!request.for_backend.empty()) make_supports(request.for_backend);  // fails early
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  QuantizeResult result;
  const Graph original = read_model(request.flow);
  SplitData data = look_at_data(request, original);
  for (const std::string& line : find_quantized_ops(original)) log_warning(line);
  std::optional<Progress> progress;
  Measured measured;
  ObservedGraph observed = calibrated(original, request, data, progress, measured, result.report);
  std::string annotations;  // must precede convert, which consumes the observers
  if (request.wants_pages || request.annotated) annotations = annotations_to_json(observed);
  if (request.annotated) request.annotated(annotations);
  if (request.wants_pages) {
    result.pages.emplace("quantize", request.flow);
    result.pages->before_convert(observed, std::move(annotations));
  }
  ConvertOptions convert_options;
  convert_options.compat = request.flow.compat;
  convert_options.reference_representation = request.reference;
  result.graph = convert_pt2e(std::move(observed), convert_options, result.report);
  if (result.pages) result.pages->after_convert(result.graph, result.report);
  if (request.drops_example_inputs) drop_example_inputs(result.graph);
  result.weight = weigh(original, result.graph, result.report);
  if (!request.reference) weigh_on_backend(request, result);
  if (data.evaluation.is_there())
    measured.now =
        measure(original, result.graph, request, data.evaluation, *progress, result.report);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.figures = quality_json(measured, result.weight, seconds);
  if (request.has_quantized_io()) result.io = quantize_border(result.graph, request, result.report);
  if (request.qdq == "native")
    run_passes("convert", result.graph,
               {{"native_qdq", [&] { return to_native_qdq(result.graph); }}});
  if (request.qdq == "affine")
    run_passes("convert", result.graph,
               {{"affine_qdq", [&] { return to_affine_qdq(result.graph); }}});
  return result;
}

}  // namespace octet

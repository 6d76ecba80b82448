#include "tools/python/torch/search.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "annotate/convert/convert.h"
#include "annotate/observed/annotation_json.h"
#include "annotate/observed/observer_state.h"
#include "annotate/training/initial_ranges.h"
#include "tools/cli/processes/processes.h"
#include "tools/cli/qat/shared_step.h"
#include "tools/cli/qat/train.h"
#include "tools/cli/quantize/flow_text.h"
#include "tools/cli/quantize/quality.h"
#include "tools/cli/quantize/report_file.h"
#include "tools/cli/tune/trial_file.h"
#include "tools/cli/tune/tuner.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/settings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

// The choice of these names, of which Python has checked that it is one.
template <typename Choice>
Choice choice_of(const nb::dict& settings, const char* name,
                 std::initializer_list<std::pair<const char*, Choice>> choices) {
  std::string given;
  take(settings, name, given);
  for (const auto& [text, choice] : choices)
    if (text == given) return choice;
  return choices.begin()->second;
}

TrainOptions train_options_of(const nb::dict& settings) {
  TrainOptions options;
  std::string train, validation, checkpoint;
  take(settings, "train", train);
  take(settings, "validation", validation);
  take(settings, "checkpoint", checkpoint);
  options.train = train;
  options.validation = validation;
  options.checkpoint = checkpoint;
  options.loss = choice_of<Loss>(
      settings, "loss",
      {{"cross_entropy", Loss::kCrossEntropy}, {"mse", Loss::kMse}, {"distill", Loss::kDistill}});
  options.optimizer = choice_of<OptimizerKind>(
      settings, "optimizer", {{"sgd", OptimizerKind::kSgd}, {"adamw", OptimizerKind::kAdamW}});
  options.schedule = choice_of<Schedule>(
      settings, "schedule", {{"constant", Schedule::kConstant}, {"cosine", Schedule::kCosine}});
  take(settings, "lr", options.rate);
  take(settings, "momentum", options.momentum);
  take(settings, "weight_decay", options.weight_decay);
  take(settings, "epochs", options.epochs);
  take(settings, "freeze_after", options.freeze_after);
  take(settings, "learn_ranges", options.learn_ranges);
  take(settings, "patience", options.patience);
  take(settings, "seed", options.seed);
  take(settings, "checkpoint_every", options.checkpoint_every);
  return options;
}

Outcome train(const QuantizeFlow& flow, const TrainOptions& options, const std::string& state,
              std::vector<std::string> sources) {
  const auto start = std::chrono::steady_clock::now();
  Report report;
  const Graph float_model = read_model(flow);
  Processes processes;
  SharedStep step(processes, float_model);
  QatModel model(prepare_model(std::move(*clone(float_model)), flow, report), {},
                 step.is_alone() ? nullptr : &step);
  if (!state.empty()) set_initial_ranges(model.prepared(), read_state(state), state);
  QatTrainer(model, float_model, options, step).run();
  ObservedGraph trained = std::move(model).finish();
  ReportFile pages("qat", flow);
  pages.before_convert(trained, annotations_to_json(trained));
  Graph graph = convert_pt2e(std::move(trained), {.compat = flow.compat}, report);
  pages.after_convert(graph, report);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const nlohmann::ordered_json figures =
      quality_json({}, weigh(float_model, graph, report), seconds);
  return {.graph = handle_of(std::move(graph), std::move(sources)),
          .report = pages.json(report, figures),
          .page = text_of(pages.page(report, figures)),
          .lines = quality_lines(figures),
          .io = ""};
}

Outcome qat(const nb::dict& settings) {
  QuantizeFlow flow = flow_of(settings);
  TrainOptions options = train_options_of(settings);
  flow.is_training = true;
  flow.learns_ranges = options.learn_ranges.has_value();
  options.flow = text_of_flow(flow);
  std::string state;
  take(settings, "state", state);
  std::vector<std::string> sources = sources_of(settings);
  return without_gil([&] { return train(flow, options, state, std::move(sources)); });
}

// The trials, the best of them, and whether it is good enough.
nlohmann::ordered_json json_of(const Tuned& tuned) {
  nlohmann::ordered_json trials = nlohmann::ordered_json::array();
  for (const Trial& trial : tuned.outcome.trials) trials.push_back(to_json(trial));
  return {{"trials", std::move(trials)}, {"best", tuned.outcome.best},
          {"config", tuned.config},      {"reached", tuned.outcome.is_reached},
          {"batches", tuned.batches},    {"trusted", tuned.estimate.is_trusted()}};
}

std::pair<GraphHandle, std::string> tune_program(const nb::dict& settings) {
  TuneOptions options;
  options.flow = flow_of(settings);
  take(settings, "calibration", options.calibration);
  take(settings, "evaluate", options.evaluate);
  take(settings, "labels", options.labels);
  take(settings, "min_sqnr", options.least_sqnr_db);
  take(settings, "max_drop", options.most_drop);
  take(settings, "min_metric", options.least_metric);
  std::string metric;
  take(settings, "metric", metric);
  options.metric = {metric, metric.empty() ? Metric() : find_metric(metric)};
  take(settings, "max_latency", options.most_latency);
  take(settings, "backend", options.backend);
  take(settings, "threads", options.threads);
  take(settings, "trials", options.most_trials);
  take(settings, "checkpoint", options.checkpoint);
  std::vector<std::string> sources = sources_of(settings);
  return without_gil([&] {
    Tuned tuned = tune(read_model(options.flow), options);
    std::string json = text_of(json_of(tuned));
    return std::pair(handle_of(std::move(tuned.quantized), std::move(sources)), std::move(json));
  });
}

}  // namespace

void bind_search(nb::module_& module) {
  module.def("qat", qat, "settings"_a);
  module.def("tune", tune_program, "settings"_a);
}

}  // namespace octet::python

#include "tools/cli/tune/tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "annotate/accuracy/held_out_check.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/compare/compare.h"
#include "annotate/compare/diagnosis.h"
#include "annotate/convert/convert.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "lowering/lower.h"
#include "lowering/program/artifact.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/compare/report.h"
#include "tools/cli/quantize/effort.h"
#include "tools/cli/quantize/quality.h"
#include "tools/cli/tune/base_settings.h"
#include "tools/cli/tune/candidates.h"
#include "tools/cli/tune/trials.h"
#include "tools/cli/tune/width_search.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSensitivityStage = "sensitivity";
// The number of batches for sensitivities and causes.
constexpr size_t kSensitivityBatches = 4;
class Tuner {
 public:
  Tuner(const Graph& original, const TuneOptions& options, Peers* peers)
      : original_(original),
        options_(options),
        flow_(options.flow),
        base_(flow_),
        metric_(options.validate ? NamedMetric{"validate", {}} : read_metric(options.metric)),
        vocabulary_(options.most_size ? find_vocabulary(original) : 0),
        peers_(peers),
        data_(split(options.data, original, /*holds_out=*/true, SIZE_MAX)),
        batches_(data_.all),
        progress_(stages()),
        trials_(options.checkpoint, describe(), is_first()) {
    check_batches();
    if (options.has_effort()) base_.allow_effort();
    if (options.most_size) check_widths(base_, options.flow.quantizer);
    if (vocabulary_ > 0) metric_ = {"", minus_divergence(vocabulary_)};
  }

  Tuned run() {
    Tuned tuned;
    tuned.outcome =
        options_.most_size ? search_widths(tuned.estimate) : search_candidates(tuned.estimate);
    quantized(tuned.outcome.trials[tuned.outcome.best].config);
    tuned.quantized = std::move(*quantized_);
    tuned.batches = data_.evaluation.description;
    tuned.metric = metric_.name;
    tuned.config = merged(base_.whole(), tuned.outcome.trials[tuned.outcome.best].config);
    return tuned;
  }

 private:
  TuneOutcome search_candidates(Estimate& estimate) {
    std::vector<TuneCandidate> candidates = find_candidates(estimate);
    const TuneGoal goal{.most_error = outputs_goal().most_error(),
                        .most_latency = options_.most_latency};
    return search(bases(), candidates, goal, options_.most_trials, trial_maker());
  }

  TuneOutcome search_widths(Estimate& estimate) {
    return octet::search_widths(
        base_, *options_.most_size,
        {.quantized = [&](const Json& config) -> const Graph& { return quantized(config); },
         .bytes = [&](const Json& config) { return bytes_of(config); },
         .sensitivities = [&](const Graph& graph) { return sensitivities_of(graph, 1); },
         .make_trial = trial_maker()},
        estimate);
  }

  MakeTrial trial_maker() {
    return [&](const Json& config, const std::string& label) { return make_trial(config, label); };
  }

  bool is_first() const { return peers_ == nullptr || peers_->rank() == 0; }

  void check_batches() const {
    const size_t batches = data_.calibration.size();
    if (peers_ != nullptr && batches < peers_->count())
      throw Error(
          "tune", data_.all.file,
          fmt::format("{} batches to calibrate with for {} processes; start at most one per batch",
                      batches, peers_->count()));
  }

  std::vector<Progress::Stage> stages() const {
    const double batches = static_cast<double>(batches_.size());
    const Progress::Stage calibrate{std::string(kCalibrateStage), batches},
        sensitivity{kSensitivityStage, 10.0},
        evaluate{kEvaluateStage, kEvaluateCost * std::max(1.0, batches / 8)};
    std::vector<Progress::Stage> all;
    const auto add = [&](size_t times, std::initializer_list<Progress::Stage> stages) {
      for (size_t i = 0; i < times; ++i) all.insert(all.end(), stages);
    };
    if (options_.most_size) {
      add(std::size(kWidths), {calibrate, sensitivity, evaluate});
      add(kMixes, {calibrate, evaluate});
    } else {
      add(1, {calibrate, sensitivity});
      add(options_.most_trials, {calibrate, evaluate});
    }
    return all;
  }

  std::string describe() const {
    TuneOptions options = options_;
    return fmt::format("{}; {}", describe_run(options_.flow, data_.calibration, EffortOptions{}),
                       octet::describe(tune_options(options)));
  }

  // Known after the first evaluation.
  const OutputGoal& outputs_goal() {
    if (goal_) return *goal_;
    if (options_.least_sqnr_db) goal_ = OutputGoal::of_sqnr(*options_.least_sqnr_db);
    if (options_.most_size) goal_ = OutputGoal::of_least();
    if (options_.most_drop) goal_ = OutputGoal::of_drop(*options_.most_drop);
    if (!options_.least_metric) return *goal_;
    if (options_.validate) {
      const double best = options_.validate(original_);
      goal_ = OutputGoal::of_metric(metric_.name, *options_.least_metric, best);
      return *goal_;
    }
    Interpreter original(original_);
    const BatchOutputs program = [&](size_t batch, const std::vector<c10::IValue>& inputs) {
      return float_outputs(original, batch, inputs);
    };
    const Quality best =
        evaluate(program, program, data_.evaluation, progress_, peers_, metric_.measure);
    goal_ = OutputGoal::of_metric(metric_.name, *options_.least_metric, *best.metric);
    return *goal_;
  }

  // Keeps the last program, because the first trial is the program in which candidates were found,
  // and the last trial is often the best.
  const Graph& quantized(const Json& config) {
    if (!quantized_ || quantized_config_ != config) {
      quantized_ = quantize(config);
      quantized_config_ = config;
      quantized_bytes_.reset();
    }
    return *quantized_;
  }

  // The size of the .octet file, for --backend if it is given.
  double bytes_of(const Json& config) {
    const Graph& graph = quantized(config);
    if (quantized_bytes_) return *quantized_bytes_;
    Report report;
    const std::string backend = options_.backend.empty() ? "reference" : options_.backend;
    quantized_bytes_ =
        static_cast<double>(program_bytes(lower(graph, make_supports(backend), {}, report)).size());
    return *quantized_bytes_;
  }

  Graph quantize(const Json& config) {
    QuantizeFlow flow = flow_;
    const Json settings = merged(base_.config(), config);
    flow.settings = settings.empty() ? std::string() : dump_json(settings);
    Report report;
    ObservedGraph observed = prepare_model(std::move(*clone(original_)), flow, report);
    const EffortOptions effort;
    const EffortPlan plan = plan_effort(observed, effort, flow, data_.calibration.size());
    if (plan.has_passes())
      calibrate_with_effort(observed, data_.calibration, plan, effort, flow, progress_, report,
                            peers_, &memory_);
    else
      fill_observers(observed);
    return convert_pt2e(std::move(observed), {.compat = flow.compat}, report);
  }

  // Reuses observers of earlier trials if they saw the same data in the same program.
  void fill_observers(ObservedGraph& observed) {
    const std::string program = ObserverMemory::describe(observed);
    if (!needs_calibration(observed))
      return memory_.observers.fill(observed, program, "constants",
                                    [](ObservedGraph& part) { observe_constants(part); });
    memory_.observers.fill(observed, program, "data", [&](ObservedGraph& part) {
      calibrate_from_file(part, data_.calibration, "", progress_, {.peers = peers_});
    });
  }

  bool is_static() const { return options_.flow.mode == "static"; }

  // Settings of the whole program that do not slow it down.
  std::vector<Trial> bases() const {
    const auto observer = [&](const char* name) {
      Json global = base_.global();
      global["act_observer"] = name;
      return Json{{"global", std::move(global)}};
    };
    if (!is_static()) return {{.label = "unchanged"}};
    return {
        {.label = "unchanged"},
        {.label = "activations by mse", .config = observer("mse")},
        {.label = "activations by min_max", .config = observer("min_max")},
    };
  }

  size_t sensitivity_batches() const { return std::min(kSensitivityBatches, batches_.size()); }

  // This process's batches among the first `all`.
  BatchSource own_batches(size_t all) const {
    SampleData first = data_.all;
    first.end = all;
    return peers_ == nullptr ? source_of(first) : source_of(first, peers_->rank(), peers_->count());
  }

  // Process 0 gets the sums of all processes, the others only their part.
  Comparison compare_on(const Graph& plain) {
    const size_t all = sensitivity_batches(), count = count_of_own(peers_, all);
    ComparisonReport report{.subject = &plain};
    if (count > 0)
      report.comparison =
          shadow(original_, plain, own_batches(all),
                 {.progress = [&](size_t done) { progress_.advance(count + done, 2 * count); }});
    if (peers_ == nullptr) return std::move(report.comparison);
    const std::vector<std::string> parts = peers_->share(count > 0 ? pack_sums(report) : "");
    for (size_t i = 1; is_first() && i < parts.size(); ++i)
      if (!parts[i].empty()) add_sums(report, parts[i]);
    return std::move(report.comparison);
  }

  // Begins the stage, of which it is one of `parts`.
  Sensitivities sensitivities_of(const Graph& graph, size_t parts) {
    progress_.begin(kSensitivityStage);
    const size_t all = sensitivity_batches(), count = count_of_own(peers_, all);
    return estimate_sensitivities(
        original_, graph, own_batches(all),
        {.vocabulary = vocabulary_,
         .progress = [&](size_t done) { progress_.advance(done, parts * count); },
         .peers = peers_});
  }

  std::vector<TuneCandidate> find_candidates(Estimate& estimate) {
    const Graph& plain = quantized(Json::object());
    const Sensitivities sensitivities = sensitivities_of(plain, 2);
    const Comparison comparison = compare_on(plain);
    estimate = {sensitivities.measured, sensitivities.estimated};
    if (!is_first()) return shared({}, peers_);
    std::vector<OpCandidate> found =
        octet::find_candidates(original_, plain, comparison, sensitivities, base_, is_static());
    if (!options_.backend.empty() && trials_.costs().empty()) {
      OpCosts costs(plain, options_.backend, options_.threads, batches_.at(0));
      measure_costs(found, original_, costs, [&](const Json& config) { return quantize(config); });
    }
    std::vector<TuneCandidate> candidates;
    for (OpCandidate& each : found) candidates.push_back(std::move(each.candidate));
    if (!options_.backend.empty()) keep_costs(candidates);
    return shared(std::move(candidates), peers_);
  }

  // A resumed run keeps the costs of the first run.
  void keep_costs(std::vector<TuneCandidate>& candidates) {
    std::map<std::string, double> costs = trials_.costs();
    for (TuneCandidate& candidate : candidates)
      candidate.cost = costs.try_emplace(candidate.label, candidate.cost).first->second;
    if (costs != trials_.costs()) trials_.keep_costs(std::move(costs));
  }

  Trial make_trial(const Json& config, const std::string& label) {
    if (const std::optional<Trial> known = trials_.find(config)) return *known;
    const Graph* made = nullptr;
    try {
      made = &quantized(config);
    } catch (const NothingToQuantize&) {
      return {.label = label, .config = config, .error = 0, .float_share = 1, .is_float = true};
    }
    std::optional<Session> session;
    if (!options_.backend.empty()) {
      Report report;
      session.emplace(lower(*made, make_supports(options_.backend), {}, report), options_.threads);
    }
    const Quality quality = measure(*made, session);
    const Weight weight = weigh(original_, *made, Report());
    Trial trial{.label = label, .config = config};
    trial.sqnr_db = quality.median_db;
    trial.accuracy = quality.accuracy;
    if (vocabulary_ > 0)
      trial.divergence = -*quality.metric;
    else
      trial.metric = quality.metric;
    if (options_.most_size) trial.bytes = bytes_of(config);
    trial.float_share = 1 - weight.int8_share;
    trial.int16_share = weight.int16_share;
    if (!is_static()) trial.weight_bits = weight.weight_bits;
    trial.error = outputs_goal().error_of(quality);
    // the others wait while process 0 measures
    if (session) trial.latency_ms = sum_over(peers_, is_first() ? latency_of(*session) : 0);
    log_line(fmt::format("{}: {}", label, figures_of(trial, metric_.name)));
    trials_.add(trial);
    return trial;
  }

  // Runs the program on the backend, if one is given.
  Quality measure(const Graph& quantized, std::optional<Session>& session) {
    Interpreter original(original_), interpreter(quantized);
    const BatchOutputs float_program = [&](size_t batch, const std::vector<c10::IValue>& inputs) {
      return float_outputs(original, batch, inputs);
    };
    const BatchOutputs program = [&](size_t, const std::vector<c10::IValue>& inputs) {
      return session ? run_session(*session, inputs) : interpreter.run(inputs);
    };
    Quality quality =
        evaluate(float_program, program, data_.evaluation, progress_, peers_, metric_.measure);
    if (options_.validate) quality.metric = options_.validate(quantized);
    return quality;
  }

  // Caches the float outputs, which are the same in all trials, unless they are too large.
  std::vector<c10::IValue> float_outputs(Interpreter& original, size_t batch,
                                         const std::vector<c10::IValue>& inputs) {
    constexpr size_t kMostBytes = size_t{256} << 20;
    if (const auto known = float_outputs_.find(batch); known != float_outputs_.end())
      return known->second;
    std::vector<c10::IValue> outputs = original.run(inputs);
    for (const c10::IValue& output : outputs)
      if (output.isTensor()) float_output_bytes_ += output.toTensor().nbytes();
    if (float_output_bytes_ <= kMostBytes) float_outputs_.emplace(batch, outputs);
    return outputs;
  }

  // The fastest of some runs on the first batch, because other work on the machine only adds time.
  double latency_of(Session& session) const {
    constexpr int kWarmUps = 3, kRuns = 15;
    std::vector<Tensor> inputs;
    for (const c10::IValue& value : batches_.at(0))
      inputs.push_back(value.isTensor() ? from_aten(value.toTensor().contiguous()) : Tensor());
    double least = HUGE_VAL;
    for (int i = 0; i < kWarmUps + kRuns; ++i) {
      const auto start = std::chrono::steady_clock::now();
      session.run(inputs);
      const double time =
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
              .count();
      if (i >= kWarmUps) least = std::min(least, time);
    }
    return least;
  }

  const Graph& original_;
  const TuneOptions& options_;
  QuantizeFlow flow_;  // without the options that base_ took
  BaseSettings base_;
  NamedMetric metric_;
  int64_t vocabulary_;  // of the logits, with a goal of a size; 0: none
  Peers* peers_;
  SplitData data_;
  SampleReader batches_;  // all of the calibration file
  Progress progress_;
  TrialFile trials_;
  std::optional<OutputGoal> goal_;
  EffortMemory memory_;  // shared by all programs quantized here
  std::unordered_map<size_t, std::vector<c10::IValue>> float_outputs_;  // by batch
  size_t float_output_bytes_ = 0;
  std::optional<Graph> quantized_;  // by quantized_config_
  Json quantized_config_;
  std::optional<double> quantized_bytes_;  // its .octet file, once asked for
};

}  // namespace

Tuned tune(const Graph& original, const TuneOptions& options, Peers* peers) {
  check_goals(options);
  return Tuner(original, options, peers).run();
}

}  // namespace octet

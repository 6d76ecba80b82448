#include "tools/cli/tune/tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

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
#include "tools/cli/compare/suggestion.h"
#include "tools/cli/quantize/effort.h"
#include "tools/cli/quantize/products.h"
#include "tools/cli/quantize/quality.h"
#include "tools/cli/tune/base_settings.h"
#include "tools/cli/tune/candidates.h"
#include "tools/cli/tune/trials.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSensitivityStage = "sensitivity";
// The number of batches for sensitivities and causes.
constexpr size_t kSensitivityBatches = 4;
// The number of calibration batches for the report.
constexpr size_t kReportBatches = 4;

// The bits of weights that a goal of a size chooses from, ascending.
constexpr int kWidths[] = {3, 4, 8};
constexpr size_t kMixes = std::size(kWidths) - 1;
constexpr double kMega = 1e6;

// The KL divergence of logits as a metric, whose larger values are better.
Metric minus_divergence(int64_t vocabulary) {
  return [vocabulary](const at::Tensor& want, const at::Tensor& is) {
    const bool are_logits = want.dim() > 1 && want.size(-1) == vocabulary;
    return are_logits ? -logit_divergence(want, is) : std::nan("");
  };
}

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
    if (options.most_size && !base_.has_weight_options())
      throw Error(
          "tune", "--max-size",
          fmt::format("got the quantizer {}, want x86, xnnpack or qnnpack alone, whose rows set "
                      "the bits of weights",
                      options.flow.quantizer));
    if (options.most_size && base_.whole().contains("global") &&
        base_.whole().at("global").is_null())
      throw Error(
          "tune", "--max-size",
          "chooses bits for all ops, but --config has \"global\": null; leave that out, and "
          "give the ops that stay float a row of null");
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
    return search(
        bases(), candidates, goal, options_.most_trials,
        [&](const Json& config, const std::string& label) { return make_trial(config, label); });
  }

  // A program whose weights all have these bits, except those that settings decide.
  struct Width {
    int bits = 0;
    Json config = {};
    double bytes = 0;                           // of the program
    std::map<std::string, double> losses = {};  // by op
    std::map<std::string, Product> products = {};

    // For each weight, with its share of the 16-bit scale of a group.
    double bytes_each() const {
      const int group = config.at("global").at("group_size");
      return bits / 8.0 + (group == 0 ? 0 : 2.0 / group);
    }
  };

  // The settings of the op, or of all ops, with weights of these bits.
  static Json in_bits(Json options, int bits) {
    options["weight_bits"] = bits;
    options["group_size"] = bits == 8 ? 0 : options.value("group_size", kSmallGroup);
    return options;
  }

  // Compares each width for the whole program with mixes, and chooses the one with the least error
  // among those of the size.
  TuneOutcome search_widths(Estimate& estimate) {
    const double most = kMega * *options_.most_size;
    TuneOutcome outcome;
    outcome.is_reached = true;
    std::vector<Width> widths;
    for (const int bits : kWidths) {
      try {
        widths.push_back(measure_width(bits, estimate));
      } catch (const NothingToQuantize&) {
        if (bits == kWidths[std::size(kWidths) - 1]) throw;
        continue;  // groups divide no rows
      }
      if (widths.back().bytes <= most)
        outcome.trials.push_back(
            make_trial(widths.back().config, fmt::format("weights of {} bits", bits)));
    }
    // without the smallest bits too, whose errors are the worst estimated
    for (size_t first = 0; first + 1 < widths.size(); ++first)
      if (std::optional<Trial> mix = make_mix(std::span(widths).subspan(first), most))
        outcome.trials.push_back(std::move(*mix));
    if (outcome.trials.empty()) {
      const Width& least = *std::ranges::min_element(widths, {}, &Width::bytes);
      throw Error(
          "tune", "--max-size",
          fmt::format("got {:g} MB, want at least {:.2f}, which the program takes with "
                      "weights of {} bits",
                      *options_.most_size, std::ceil(least.bytes / kMega * 100) / 100, least.bits));
    }
    for (size_t i = 0; i < outcome.trials.size(); ++i) {
      const double best = outcome.trials[outcome.best].error;
      if (outcome.trials[i].error < best || std::isnan(best)) outcome.best = i;
    }
    return outcome;
  }

  Width measure_width(int bits, Estimate& estimate) {
    Width width{.bits = bits,
                .config = merged(base_.config(), {{"global", in_bits(base_.global(), bits)}})};
    const Graph& graph = quantized(width.config);
    width.bytes = stored_bytes(graph);
    for (Product& product : find_products(graph)) {
      std::string name = product.name;
      width.products.emplace(std::move(name), std::move(product));
    }
    progress_.begin(kSensitivityStage);
    const size_t all = std::min(kSensitivityBatches, batches_.size());
    const size_t count = count_of_own(peers_, all);
    const Sensitivities found =
        estimate_sensitivities(original_, graph, own_batches(all),
                               {.vocabulary = vocabulary_,
                                .progress = [&](size_t done) { progress_.advance(done, count); },
                                .peers = peers_});
    for (const OpSensitivity& op : found.ops) width.losses[op.name] = op.output_error;
    if (found.measured > estimate.measured) estimate = {found.measured, found.estimated};
    return width;
  }

  // widths: ascending. Nothing if no op can have another width, or no mix fits.
  std::optional<Trial> make_mix(std::span<const Width> widths, double most) {
    std::vector<std::string> names, floats;  // floats: groups do not divide their rows
    std::vector<std::vector<WidthOption>> options;
    const auto follows = [](const Width& width, const std::string& name) {
      const auto product = width.products.find(name);
      return product != width.products.end() && product->second.weight_bits == width.bits;
    };
    for (const auto& [name, product] : widths.front().products) {
      if (!std::ranges::all_of(widths, [&](const Width& width) { return follows(width, name); })) {
        if (product.weight_bits > widths.back().bits && follows(widths.back(), name))
          floats.push_back(name);
        continue;
      }
      names.push_back(name);
      std::vector<WidthOption>& own = options.emplace_back();
      for (const Width& width : widths) {
        const auto loss = width.losses.find(name);
        own.push_back({product.weights * (width.bytes_each() - widths.front().bytes_each()),
                       loss == width.losses.end() ? 0 : loss->second});
      }
    }
    if (names.empty()) return std::nullopt;
    // The first width for all ops, such as the head, whose table is then shared with embeddings as
    // before.
    Json start = widths.front().config;
    double least = widths.front().bytes;
    if (!floats.empty()) {
      const std::vector<size_t> lasts(floats.size(), widths.size() - 1);
      start = with_rows(std::move(start), widths, floats, lasts);
      least = stored_bytes(quantized(start));
    }
    if (least > most) return std::nullopt;
    const std::string label =
        fmt::format("weights of {} to {} bits", widths.front().bits, widths.back().bits);
    // The estimate leaves out scales of channels and names.
    for (double left = most - least; left > 0;) {
      const std::vector<size_t> chosen = choose_widths(options, left);
      if (std::ranges::all_of(chosen, [](size_t option) { return option == 0; })) break;
      const Json config = with_rows(start, widths, names, chosen);
      const double excess = stored_bytes(quantized(config)) - most;
      if (excess <= 0) return make_trial(config, label);
      double used = 0;
      for (size_t i = 0; i < chosen.size(); ++i) used += options[i][chosen[i]].bytes;
      left = used - std::max(excess, 1.0);
    }
    if (floats.empty()) return std::nullopt;  // a trial by itself
    return make_trial(start, label);
  }

  // Adds rows for the ops of which not the first width was chosen.
  Json with_rows(Json config, std::span<const Width> widths, const std::vector<std::string>& names,
                 const std::vector<size_t>& chosen) {
    const Graph& graph = quantized(config);
    for (size_t i = 0; i < names.size(); ++i) {
      const Value* value = graph.find_value(names[i]);
      if (chosen[i] == 0 || value == nullptr || value->producer() == nullptr) continue;
      const Json settings = in_bits(base_.options_of(*value->producer()), widths[chosen[i]].bits);
      const Remedy remedy = find_remedy(graph, *value, Cause::kWeights, settings);
      if (!remedy.config.is_null()) config = merged(std::move(config), remedy.config);
    }
    return config;
  }

  // Bytes of the .octet file, for --backend if it is given.
  double stored_bytes(const Graph& graph) const {
    Report report;
    const std::string backend = options_.backend.empty() ? "reference" : options_.backend;
    return static_cast<double>(
        program_bytes(lower(graph, make_supports(backend), {}, report)).size());
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
    }
    return *quantized_;
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

  // This process's batches among the first `all`.
  BatchSource own_batches(size_t all) const {
    SampleData first = data_.all;
    first.end = all;
    return peers_ == nullptr ? source_of(first) : source_of(first, peers_->rank(), peers_->count());
  }

  // Process 0 gets the sums of all processes, the others only their part.
  Comparison compare_on(const Graph& plain, size_t all, size_t count) {
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

  // Process 0 finds the candidates, so that all processes search the same ones.
  std::vector<TuneCandidate> shared(std::vector<TuneCandidate> candidates) const {
    if (peers_ == nullptr) return candidates;
    Json rows = Json::array();
    for (const TuneCandidate& each : candidates)
      rows.push_back({each.label, each.config, each.gain, each.cost, each.choice, each.strength});
    const std::string text = is_first() ? dump_json(rows) : std::string();
    candidates.clear();
    for (const Json& row : parse_json<Json>(peers_->share(text).front()))
      candidates.push_back({row.at(0), row.at(1), row.at(2), row.at(3), row.at(4), row.at(5)});
    return candidates;
  }

  std::vector<TuneCandidate> find_candidates(Estimate& estimate) {
    const Graph& plain = quantized(Json::object());
    progress_.begin(kSensitivityStage);
    const size_t all = std::min(kSensitivityBatches, batches_.size());
    const size_t count = count_of_own(peers_, all);
    const Sensitivities sensitivities = estimate_sensitivities(
        original_, plain, own_batches(all),
        {.progress = [&](size_t done) { progress_.advance(done, 2 * count); }, .peers = peers_});
    const Comparison comparison = compare_on(plain, all, count);
    estimate = {sensitivities.measured, sensitivities.estimated};
    if (!is_first()) return shared({});
    std::vector<OpCandidate> found =
        octet::find_candidates(original_, plain, comparison, sensitivities, base_, is_static());
    if (!options_.backend.empty() && trials_.costs().empty()) {
      OpCosts costs(plain, options_.backend, options_.threads, batches_.at(0));
      measure_costs(found, original_, costs, [&](const Json& config) { return quantize(config); });
    }
    std::vector<TuneCandidate> candidates;
    for (OpCandidate& each : found) candidates.push_back(std::move(each.candidate));
    if (!options_.backend.empty()) keep_costs(candidates);
    return shared(std::move(candidates));
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
    if (options_.most_size) trial.bytes = stored_bytes(*made);
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
};

}  // namespace

std::string figures_of(const Trial& trial, const std::string& metric) {
  std::string text = fmt::format("{:.1f} dB", trial.sqnr_db);
  if (trial.divergence) text += fmt::format(", KL divergence {:.4f}", *trial.divergence);
  if (trial.accuracy) text += fmt::format(", accuracy {:.2f} %", 100 * *trial.accuracy);
  if (trial.metric) text += fmt::format(", {} {:.6g}", metric, *trial.metric);
  text += trial.weight_bits ? fmt::format(", {:.2f} bits a weight", *trial.weight_bits)
                            : fmt::format(", {:.1f} % of the multiply-accumulates in float",
                                          100 * trial.float_share);
  if (trial.bytes) text += fmt::format(", {:.2f} MB", *trial.bytes / kMega);
  if (trial.int16_share > 0)
    text += fmt::format(", {:.1f} % with 16 bits", 100 * trial.int16_share);
  if (trial.latency_ms) text += fmt::format(", {:.3f} ms", *trial.latency_ms);
  return text;
}

Tuned tune(const Graph& original, const TuneOptions& options, Peers* peers) {
  check_goals(options);
  return Tuner(original, options, peers).run();
}

nlohmann::ordered_json tune_report(const Graph& original, const Tuned& tuned,
                                   const TuneOptions& options) {
  SampleData data = sample_data(options.data.calibration, &original, options.data.max_batches);
  data.end = std::min(data.end, kReportBatches);
  ComparisonReport report{.title = options.flow.model,
                          .subtitle = options.flow.quantizer + ", tuned",
                          .subject = &tuned.quantized,
                          .metric = options.validate ? "" : tuned.metric};
  report.comparison = shadow(original, tuned.quantized, source_of(data),
                             {.metric = read_metric(options.metric).measure, .values = true});
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

}  // namespace octet

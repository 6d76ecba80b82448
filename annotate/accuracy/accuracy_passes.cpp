#include "annotate/accuracy/accuracy_passes.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/accuracy/bias_correction.h"
#include "annotate/accuracy/channel_space.h"
#include "annotate/accuracy/held_out_check.h"
#include "annotate/accuracy/smooth.h"
#include "annotate/accuracy/stepwise_run.h"
#include "annotate/accuracy/tune_ranges.h"
#include "annotate/accuracy/weight_rounding.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr double kCalibrateCost = 4;

struct PassRow {
  AccuracyPass pass;
  std::string_view name;
  double cost;  // per batch, see PlannedStage
};
constexpr std::array<PassRow, 6> kPasses = {{{AccuracyPass::kEqualize, "equalize", 0.1},
                                             {AccuracyPass::kSmooth, "smooth", 4},
                                             {AccuracyPass::kRanges, "ranges", 600},
                                             {AccuracyPass::kCorrectBias, "correct-bias", 20},
                                             {AccuracyPass::kRound, "round", 110},
                                             {AccuracyPass::kAdaptive, "adaptive", 600}}};

const PassRow& row_of(AccuracyPass pass) {
  return *std::ranges::find_if(kPasses, [&](const PassRow& row) { return row.pass == pass; });
}

class EffortRun {
 public:
  EffortRun(ObservedGraph& observed, const DataOpener& open, size_t batches, Report& report,
            const EffortProgress& progress, EffortJournal* journal, const PassFilter& applies,
            Peers* peers, EffortMemory* memory)
      : observed_(observed),
        open_(open),
        batches_(batches),
        report_(report),
        progress_(progress),
        journal_(journal),
        applies_(applies),
        peers_(peers),
        memory_(memory) {}

  void calibrate_now() {
    timed(kCalibrateStage, [&] {
      if (memory_ != nullptr) program_ = ObserverMemory::describe(observed_);
      fill_observers({}, [&](size_t done) { advance(kCalibrateStage, done, own(batches_)); });
    });
  }

  void run(AccuracyPass pass) {
    timed(name_of(pass), [&] { run_untimed(pass); });
  }

  // Runs the passes over weights and biases twice, with the ranges that calibration found and with
  // tuned ones, and keeps the better result.
  void run_with_ranges(const std::vector<AccuracyPass>& after) {
    if (!can_run_stepwise(observed_.graph)) {
      run(AccuracyPass::kRanges);
      return run_chain(after);
    }
    const HeldOutData check(observed_.graph, held_out_data(), peers_);
    const LayerSnapshot start(observed_);
    run_chain(after);
    const double before = check.error(observed_);
    const LayerSnapshot without(observed_);
    start.restore(observed_);
    run(AccuracyPass::kRanges);
    if (ranges_changed_ == 0) return without.restore(observed_);
    run_chain(after);
    const HeldOutGain gain = check.gain(before, check.error(observed_));
    report_.note(fmt::format("ranges: with the passes after it {}", gain.description()));
    if (!gain.is_enough()) without.restore(observed_);
  }

  void run_chain(const std::vector<AccuracyPass>& passes) {
    first_check_.reset();
    for (const AccuracyPass pass : passes) run(pass);
  }

  std::vector<EffortStage> take_stages() { return std::move(stages_); }

 private:
  // The batches that a pass may use; the others check its work.
  BatchSource usable_data() const {
    return own(BatchSource([source = open_(), left = batches_ - held_out_count()]() mutable {
      return left == 0 ? std::nullopt : (--left, source());
    }));
  }
  // With several processes, each takes its share round-robin.
  BatchSource own(BatchSource source) const {
    if (peers_ == nullptr) return source;
    return [source = std::move(source), skip = peers_->rank(),
            count = peers_->count()]() mutable -> std::optional<std::vector<c10::IValue>> {
      for (size_t i = 0; i < skip; ++i)
        if (!source()) return std::nullopt;
      skip = count - 1;
      return source();
    };
  }
  size_t own(size_t batches) const { return count_of_own(peers_, batches); }
  size_t held_out_count() const { return batches_ < 2 ? 0 : std::max<size_t>(1, batches_ / 4); }

  // The batches after usable_data(), or the only one.
  BatchSource held_out_data() const {
    BatchSource source = open_();
    for (size_t i = 0; batches_ > 1 && i < batches_ - held_out_count(); ++i) source();
    return own(source);
  }

  void run_checked(AccuracyPass pass,
                   const std::function<void(const BatchSource&, Report&)>& work) {
    if (!can_run_stepwise(observed_.graph))
      // `work` reports why it does nothing
      return run_or_repeat(pass, [&](Report& report) { work(own(open_()), report); });
    if (!reference_) reference_ = clone(observed_.graph);
    auto check = std::make_unique<HeldOutCheck>(observed_,
                                                HeldOutData(*reference_, held_out_data(), peers_));
    run_or_repeat(pass, [&](Report& report) {
      // rounding chooses biases itself, better from those of the float program
      if (first_check_) first_check_->undo();
      work(usable_data(), report);
      report.note(fmt::format("{}: {}", name_of(pass), check->keep_or_undo().description()));
    });
    if (!first_check_) first_check_ = std::move(check);
  }

  // Applies the pass's outcome from the journal, or runs `work`. REQUIRES: `work` changes only
  // weights, biases and observers.
  void run_or_repeat(AccuracyPass pass, const std::function<void(Report&)>& work) {
    if (journal_ == nullptr) return work(report_);
    const size_t index = outcomes_++;
    if (index < journal_->outcomes.size()) {
      const PassOutcome& outcome = journal_->outcomes[index];
      if (outcome.pass != name_of(pass))
        throw Error(
            "quantize", std::string(name_of(pass)),
            fmt::format(
                "the interrupted run has {} at this point; remove the checkpoint to start over",
                outcome.pass));
      apply(outcome, observed_);
      ranges_changed_ = outcome.ranges.size();
      return append(outcome.report);
    }
    const LayerSnapshot before(observed_);
    Report report;
    work(report);
    append(report);
    PassOutcome outcome = before.difference(observed_);
    outcome.pass = name_of(pass);
    outcome.report = std::move(report);
    journal_->outcomes.push_back(std::move(outcome));
    if (journal_->added) journal_->added(*journal_);
  }

  void append(const Report& report) {
    for (const ReportEntry& entry : report.entries()) report_.add(entry);
    for (const std::string& note : report.notes()) report_.note(note);
    for (const std::string& detail : report.details()) report_.detail(detail);
  }

  // scaled: how smoothing has changed the program since calibration.
  void fill_observers(const ScaledValues& scaled, const ProgressCallback& progress = {}) {
    const auto calibrate = [&](ObservedGraph& part) {
      if (!needs_calibration(part)) return observe_constants(part);
      calibrate_together(part, open_(), batches_, peers_, progress);
    };
    if (memory_ == nullptr) return calibrate(observed_);
    memory_->observers.fill(observed_, program_, "data", calibrate, scaled);
  }

  // Null for programs that cannot be checked.
  std::shared_ptr<const HeldOutData> held_out_check() {
    if (!can_run_stepwise(observed_.graph)) return nullptr;
    const auto make = [&] {
      return std::make_shared<const HeldOutData>(observed_.graph, held_out_data(), peers_);
    };
    if (memory_ == nullptr || program_.empty()) return make();
    std::shared_ptr<const HeldOutData>& known = memory_->held_out[program_];
    if (known == nullptr) known = make();
    return known;
  }

  // Smoothing scales by powers of two, so no other bits change.
  static ScaledValues scaled_values(const std::vector<SmoothedSpace>& smoothed) {
    ScaledValues scaled;
    for (const SmoothedSpace& chosen : smoothed)
      for (const ChannelPlace& place : chosen.space.places) {
        const at::Tensor exponents =
            place.repeats.repeat(chosen.factors).log2().to(at::kInt).contiguous();
        const std::string text =
            fmt::format("[{}: {}]", fmt::join(place.dims, ","),
                        fmt::join(exponents.const_data_ptr<int>(),
                                  exponents.const_data_ptr<int>() + exponents.numel(), " "));
        std::string& known = scaled[through_observers(place.value)];
        if (known.find(text) == std::string::npos) known += text;
      }
    return scaled;
  }

  void smooth(const SmoothOptions& options) {
    const std::shared_ptr<const HeldOutData> check = held_out_check();
    const bool can_check = check != nullptr;
    const double before = can_check ? check->error(observed_) : 0;
    const std::vector<std::shared_ptr<Observer>> calibrated = observed_.observers;
    const std::vector<SmoothedSpace> smoothed =
        smooth_activations(observed_, usable_data(), report_, options);
    if (!smoothed.empty()) {
      observed_.observers = fresh_observers(observed_);
      fill_observers(scaled_values(smoothed));
    }
    const BatchSource data = [this, source = BatchSource()]() mutable {
      if (!source) source = usable_data();  // opened only when it is read
      return source();
    };
    SmoothOptions unknown = options;  // the statistics are those of the scaled program
    unknown.known = {};
    if (fit_weight_ranges(observed_, data, report_, unknown) == 0 && smoothed.empty()) return;
    if (!can_check) return;
    const HeldOutGain gain = check->gain(before, check->error(observed_));
    report_.note("smooth: " + gain.description());
    if (gain.is_enough()) return;
    undo_smoothing(observed_, smoothed);
    observed_.observers = calibrated;
  }

  NodeFilter filter_of(AccuracyPass pass) const {
    if (!applies_) return {};
    return [this, pass](const Node& node) { return applies_(pass, node); };
  }

  void run_untimed(AccuracyPass pass) {
    const std::string_view stage = name_of(pass);
    const auto batch_done = [this, stage](size_t done) { advance(stage, done, own(batches_)); };
    const auto part_done = [this, stage](size_t done, size_t total) {
      advance(stage, done, total);
    };
    const auto layer_done = [this, stage](size_t done, size_t total, const std::string&) {
      advance(stage, done, total);
    };
    switch (pass) {
      case AccuracyPass::kEqualize:
        report_.note(
            fmt::format("equalize: {} changes", equalize_layers(observed_.graph, filter_of(pass))));
        return;
      case AccuracyPass::kSmooth: {
        SmoothOptions options;
        options.applies = filter_of(pass);
        options.progress = batch_done;
        options.peers = peers_;
        if (memory_ != nullptr && !program_.empty())
          options.known = {.memory = &memory_->channels, .program = program_};
        return smooth(options);
      }
      case AccuracyPass::kRanges: {
        RangeOptions options;
        options.applies = filter_of(pass);
        options.progress = part_done;
        options.peers = peers_;
        return run_or_repeat(pass, [&](Report& report) {
          ranges_changed_ = tune_ranges(observed_, usable_data(), report, options).changed;
        });
      }
      case AccuracyPass::kRound:
      case AccuracyPass::kAdaptive:
      case AccuracyPass::kCorrectBias:
        return run_checked(pass, [&](const BatchSource& data, Report& report) {
          const WalkOptions walk = {.reference = reference_.get(),
                                    .applies = filter_of(pass),
                                    .peers = peers_,
                                    .progress = layer_done};
          if (pass == AccuracyPass::kRound)
            round_second_order(observed_, data, report, {.walk = walk});
          else if (pass == AccuracyPass::kAdaptive)
            round_adaptive(observed_, data, report, {.walk = walk});
          else
            correct_biases(observed_, data, report, walk);
        });
    }
  }

  void timed(std::string_view stage, const std::function<void()>& work) {
    advance(stage, 0, 0);
    const auto start = std::chrono::steady_clock::now();
    work();
    stages_.push_back(
        {std::string(stage),
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
  }

  void advance(std::string_view stage, size_t done, size_t total) const {
    if (progress_) progress_(stage, done, total);
  }

  ObservedGraph& observed_;
  const DataOpener& open_;
  size_t batches_;
  std::unique_ptr<HeldOutCheck> first_check_;
  std::unique_ptr<Graph> reference_;  // the float program, before weights and biases change
  Report& report_;
  const EffortProgress& progress_;
  std::vector<EffortStage> stages_;
  EffortJournal* journal_;
  const PassFilter& applies_;
  Peers* peers_;
  EffortMemory* memory_;
  std::string program_;  // key in `memory_`: the program at its first calibration
  size_t outcomes_ = 0;  // entries of the journal that were applied or added
  size_t ranges_changed_ = 0;
};

}  // namespace

std::string_view name_of(AccuracyPass pass) { return row_of(pass).name; }

std::vector<std::string> accuracy_pass_names() {
  std::vector<std::string> names;
  for (const PassRow& row : kPasses) names.emplace_back(row.name);
  return names;
}

std::vector<AccuracyPass> parse_accuracy_passes(const std::vector<std::string>& names,
                                                const std::string& subject) {
  std::vector<AccuracyPass> passes;
  for (const std::string& name : names) {
    const auto row =
        std::ranges::find_if(kPasses, [&](const PassRow& known) { return known.name == name; });
    if (row == kPasses.end())
      throw Error("quantize", subject,
                  fmt::format("no such pass, got \"{}\", want some of {}", name,
                              fmt::join(accuracy_pass_names(), ", ")));
    if (std::ranges::find(passes, row->pass) != passes.end())
      throw Error("quantize", subject,
                  fmt::format("a pass runs once, got \"{}\" twice; leave one out", name));
    passes.push_back(row->pass);
  }
  return passes;
}

std::vector<AccuracyPass> high_effort_passes() {
  return {AccuracyPass::kSmooth, AccuracyPass::kRanges, AccuracyPass::kCorrectBias,
          AccuracyPass::kRound};
}

std::vector<PlannedStage> planned_stages(const std::vector<AccuracyPass>& passes, size_t batches) {
  std::vector<PlannedStage> stages;
  const auto add = [&](const std::vector<AccuracyPass>& chosen) {
    for (const AccuracyPass pass : chosen)
      stages.push_back(
          {name_of(pass),
           row_of(pass).cost * static_cast<double>(pass == AccuracyPass::kRanges
                                                       ? std::min(batches, RangeOptions().batches)
                                                       : batches)});
  };
  const PassOrder order(passes);
  add(order.equalize);
  stages.push_back({kCalibrateStage, kCalibrateCost * static_cast<double>(batches)});
  add(order.smooth);
  if (!order.ranges.empty()) add(order.after);
  add(order.ranges);
  add(order.after);
  return stages;
}

std::vector<EffortStage> calibrate_with_passes(ObservedGraph& observed, const DataOpener& open,
                                               size_t batches,
                                               const std::vector<AccuracyPass>& passes,
                                               Report& report, const EffortProgress& progress,
                                               EffortJournal* journal, const PassFilter& applies,
                                               Peers* peers, EffortMemory* memory) {
  const size_t usable = batches < 2 ? batches : batches - std::max<size_t>(1, batches / 4);
  if (peers != nullptr && usable < peers->count())
    throw Error(
        "quantize", "data",
        fmt::format(
            "{} of the {} batches are for the passes, too few for {} processes; start at most {}",
            usable, batches, peers->count(), usable));
  const PassOrder order(passes);
  EffortRun run(observed, open, batches, report, progress, journal, applies, peers, memory);
  run.run_chain(order.equalize);
  run.calibrate_now();
  run.run_chain(order.smooth);
  order.ranges.empty() ? run.run_chain(order.after) : run.run_with_ranges(order.after);
  return run.take_stages();
}

}  // namespace octet

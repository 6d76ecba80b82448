#include "annotate/effort.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/adaptive_rounding.h"
#include "annotate/bias_correction.h"
#include "annotate/equalize.h"
#include "annotate/fresh_observers.h"
#include "annotate/held_back_check.h"
#include "annotate/second_order_rounding.h"
#include "annotate/smooth.h"
#include "annotate/stepwise_run.h"
#include "annotate/tune_ranges.h"
#include "core/error.h"

namespace octet {
namespace {

struct PassName {
  AccuracyPass pass;
  std::string_view name;
};
constexpr std::array<PassName, 6> kPasses = {
    {{AccuracyPass::kEqualize, "equalize"},
     {AccuracyPass::kSmooth, "smooth"},
     {AccuracyPass::kRanges, "ranges"},
     {AccuracyPass::kCorrectBias, "correct-bias"},
     {AccuracyPass::kRound, "round"},
     {AccuracyPass::kAdaptive, "adaptive"}}
};

class EffortRun {
 public:
  EffortRun(ObservedGraph& observed, const DataOpener& open, size_t batches, Report& report, const EffortProgress& progress)
      : observed_(observed), open_(open), batches_(batches), report_(report), progress_(progress) {}

  void calibrate_now() {
    timed("calibrate", [&] { calibrate(observed_, open_(), [&](size_t done) { advance("calibrate", done, batches_); }); });
  }

  void run(AccuracyPass pass) {
    timed(name_of(pass), [&] { run_untimed(pass); });
  }

  // Passes over weights and biases, once with the ranges that calibration found and once with tuned ones: the better result stays.
  void run_with_ranges(const std::vector<AccuracyPass>& behind) {
    if (!can_run_stepwise(observed_.graph)) {
      run(AccuracyPass::kRanges);
      return run_chain(behind);
    }
    const HeldBackData check(observed_.graph, held_back_data());
    const LayerSnapshot start(observed_);
    run_chain(behind);
    const double before = check.error(observed_);
    const LayerSnapshot without(observed_);
    start.restore(observed_);
    run(AccuracyPass::kRanges);
    if (ranges_changed_ == 0) return without.restore(observed_);
    run_chain(behind);
    const HeldBackGain gain{before, check.error(observed_)};
    report_.note(fmt::format("ranges: with the passes behind {}", gain.description()));
    if (!gain.is_enough()) without.restore(observed_);
  }

  void run_chain(const std::vector<AccuracyPass>& passes) {
    first_check_.reset();
    for (const AccuracyPass pass : passes) run(pass);
  }

  std::vector<EffortStage> take_stages() { return std::move(stages_); }

 private:
  // The batches that a pass may use, the others are for the check of its work.
  BatchSource usable_data() const {
    return [source = open_(), left = batches_ - held_back_count()]() mutable { return left-- == 0 ? std::nullopt : source(); };
  }
  size_t held_back_count() const { return batches_ < 2 ? 0 : std::max<size_t>(1, batches_ / 4); }

  // What is behind those, or the only batch.
  BatchSource held_back_data() const {
    BatchSource source = open_();
    for (size_t i = 0; batches_ > 1 && i < batches_ - held_back_count(); ++i) source();
    return source;
  }

  void run_checked(AccuracyPass pass, const std::function<void(const BatchSource&)>& work) {
    if (const Verdict verdict = can_run_stepwise(observed_.graph); !verdict) return work(open_());  // which says why it does nothing
    if (!reference_) reference_ = clone(observed_.graph);
    auto check = std::make_unique<HeldBackCheck>(observed_, HeldBackData(*reference_, held_back_data()));
    if (first_check_) first_check_->undo();  // rounding chooses biases itself, better from those of the float program
    work(usable_data());
    report_.note(fmt::format("{}: {}", name_of(pass), check->keep_or_undo().description()));
    if (!first_check_) first_check_ = std::move(check);
  }

  void smooth(const SmoothOptions& options) {
    const bool can_check = static_cast<bool>(can_run_stepwise(observed_.graph));
    std::optional<HeldBackData> check;
    if (can_check) check.emplace(observed_.graph, held_back_data());
    const double before = can_check ? check->error(observed_) : 0;
    const std::vector<std::shared_ptr<Observer>> calibrated = observed_.observers;
    const std::vector<SmoothedSpace> smoothed = smooth_activations(observed_, usable_data(), report_, options);
    if (smoothed.empty()) return;
    observed_.observers = fresh_observers(observed_);
    octet::calibrate(observed_, open_());
    if (!can_check) return;
    const HeldBackGain gain{before, check->error(observed_)};
    report_.note("smooth: " + gain.description());
    if (gain.is_enough()) return;
    undo_smoothing(observed_, smoothed);
    observed_.observers = calibrated;
  }

  void run_untimed(AccuracyPass pass) {
    const std::string_view stage = name_of(pass);
    const auto batch_done = [this, stage](size_t done) { advance(stage, done, batches_); };
    const auto part_done = [this, stage](size_t done, size_t total) { advance(stage, done, total); };
    const auto layer_done = [this, stage](size_t done, size_t total, const std::string&) { advance(stage, done, total); };
    switch (pass) {
      case AccuracyPass::kEqualize:
        report_.note(fmt::format("equalize: {} changes", equalize_layers(observed_.graph)));
        return;
      case AccuracyPass::kSmooth: {
        SmoothOptions options;
        options.progress = batch_done;
        return smooth(options);
      }
      case AccuracyPass::kRanges: {
        RangeOptions options;
        options.progress = part_done;
        ranges_changed_ = tune_ranges(observed_, usable_data(), report_, options).changed;
        return;
      }
      case AccuracyPass::kRound:
      case AccuracyPass::kAdaptive: {
        RoundingOptions options;
        options.progress = layer_done;
        run_checked(pass, [&](const BatchSource& data) {
          options.reference = reference_.get();
          pass == AccuracyPass::kRound ? round_second_order(observed_, data, report_, options) : round_adaptive(observed_, data, report_, options);
        });
        return;
      }
      case AccuracyPass::kCorrectBias: {
        BiasOptions options;
        options.progress = layer_done;
        run_checked(pass, [&](const BatchSource& data) {
          options.reference = reference_.get();
          correct_biases(observed_, data, report_, options);
        });
        return;
      }
    }
  }

  void timed(std::string_view stage, const std::function<void()>& work) {
    advance(stage, 0, 0);
    const auto start = std::chrono::steady_clock::now();
    work();
    stages_.push_back({std::string(stage), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
  }

  void advance(std::string_view stage, size_t done, size_t total) const {
    if (progress_) progress_(stage, done, total);
  }

  ObservedGraph& observed_;
  const DataOpener& open_;
  size_t batches_;
  std::unique_ptr<HeldBackCheck> first_check_;
  std::unique_ptr<Graph> reference_;  // the float program, before weights and biases change
  Report& report_;
  const EffortProgress& progress_;
  std::vector<EffortStage> stages_;
  size_t ranges_changed_ = 0;
};

}  // namespace

std::string_view name_of(AccuracyPass pass) {
  return std::find_if(kPasses.begin(), kPasses.end(), [&](const PassName& row) { return row.pass == pass; })->name;
}

std::vector<std::string> accuracy_pass_names() {
  std::vector<std::string> names;
  for (const PassName& row : kPasses) names.emplace_back(row.name);
  return names;
}

std::vector<AccuracyPass> parse_accuracy_passes(const std::vector<std::string>& names, const std::string& subject) {
  std::vector<AccuracyPass> passes;
  for (const std::string& name : names) {
    const auto row = std::find_if(kPasses.begin(), kPasses.end(), [&](const PassName& known) { return known.name == name; });
    if (row == kPasses.end())
      throw Error("quantize", subject, fmt::format("no such pass, got \"{}\", want some of {}", name, fmt::join(accuracy_pass_names(), ", ")));
    if (std::find(passes.begin(), passes.end(), row->pass) != passes.end())
      throw Error("quantize", subject, fmt::format("a pass runs once, got \"{}\" twice; leave one out", name));
    passes.push_back(row->pass);
  }
  return passes;
}

std::vector<AccuracyPass> high_effort_passes() {
  return {AccuracyPass::kSmooth, AccuracyPass::kRanges, AccuracyPass::kCorrectBias, AccuracyPass::kRound};
}

std::vector<EffortStage> calibrate_with_passes(ObservedGraph& observed, const DataOpener& open, size_t batches,
                                               const std::vector<AccuracyPass>& passes, Report& report, const EffortProgress& progress) {
  std::vector<AccuracyPass> ordered = passes;
  std::sort(ordered.begin(), ordered.end());
  const auto chosen = [&ordered](AccuracyPass first, AccuracyPass last) {
    std::vector<AccuracyPass> part;
    std::copy_if(ordered.begin(), ordered.end(), std::back_inserter(part), [&](AccuracyPass pass) { return first <= pass && pass <= last; });
    return part;
  };
  EffortRun run(observed, open, batches, report, progress);
  run.run_chain(chosen(AccuracyPass::kEqualize, AccuracyPass::kEqualize));
  run.calibrate_now();
  run.run_chain(chosen(AccuracyPass::kSmooth, AccuracyPass::kSmooth));
  const std::vector<AccuracyPass> behind = chosen(AccuracyPass::kCorrectBias, AccuracyPass::kAdaptive);
  if (chosen(AccuracyPass::kRanges, AccuracyPass::kRanges).empty())
    run.run_chain(behind);
  else
    run.run_with_ranges(behind);
  return run.take_stages();
}

}  // namespace octet

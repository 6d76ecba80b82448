// Tries ranges of one activation after another and keeps those that bring the outputs of the whole
// program closer to the float program's. Only the nodes after the activation run again, with the
// stored values of the others.
#include "annotate/accuracy/tune_ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "annotate/accuracy/padding_mask.h"
#include "annotate/accuracy/snapshot.h"
#include "annotate/accuracy/stepwise_run.h"
#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr double kLeastGain = 1e-3;  // share of the error; smaller gains may be chance

struct Samples {
  std::vector<std::vector<c10::IValue>> batches;
  std::vector<std::vector<c10::IValue>> outputs;  // of the float program
  std::vector<at::Tensor> masks;                  // which rows count
};

struct Bounds {
  double min = 0;
  double max = 0;
};

double to_db(double error) {
  return error > 0 ? -10 * std::log10(error) : std::numeric_limits<double>::infinity();
}

// Whether the spec is static, per tensor, and has a range that min_max can hold.
bool is_tunable(const Observer& observer) {
  const ObserverArgs& args = observer.args();
  if (args.is_dynamic || is_per_channel(args.qscheme) || args.choice.affine ||
      !observer.keeps_state() || !observer.has_data())
    return false;
  if (args.choice.name.find("fake_quant") != std::string::npos || !is_integer(args.dtype))
    return false;
  return observer.state().min.size() == 1 && observer.state().max.size() == 1;
}

class RangeSearch {
 public:
  RangeSearch(ObservedGraph& observed, Samples samples, const RangeOptions& options)
      : observed_(observed),
        expected_(std::move(samples.outputs)),
        masks_(std::move(samples.masks)),
        options_(options),
        run_(observed, std::move(samples.batches)),
        total_(sum_over(options.peers, static_cast<double>(expected_.size()))) {}

  RangeTuning tune() {
    RangeTuning result;
    least_ = error(std::numeric_limits<double>::infinity());
    result.before_db = mean_db();
    const std::vector<int> groups = groups_to_tune();
    for (size_t i = 0; i < groups.size(); ++i) {
      run_.settle_before(groups[i]);
      result.changed += tune_group(groups[i]) ? 1 : 0;
      if (options_.progress) options_.progress(i + 1, groups.size());
    }
    result.ranges = groups.size();
    result.after_db = mean_db();
    return result;
  }

 private:
  double mean_db() const { return to_db(least_ / total_); }

  // Groups of activations, in program order.
  std::vector<int> groups_to_tune() const {
    const std::unordered_set<const Value*> constants = find_constant_values(observed_.graph);
    std::vector<int> groups;
    for (const Node* node : observed_.graph.nodes()) {
      if (!is_observer_node(node) || constants.contains(node->output())) continue;
      const int group = group_of(*node);
      if (is_tunable(observer(group)) && applies_to(*node) &&
          std::ranges::find(groups, group) == groups.end())
        groups.push_back(group);
    }
    return groups;
  }

  bool applies_to(const Node& point) const {
    if (!options_.applies) return true;
    if (const Node* maker = observed_value(point)->producer()) return options_.applies(*maker);
    const std::vector<Node*>& readers = point.output()->users();
    return std::ranges::any_of(readers,
                               [&](const Node* reader) { return options_.applies(*reader); });
  }

  const Observer& observer(int group) const {
    return *observed_.observers[static_cast<size_t>(group)];
  }

  // Stops early, with infinity, when the sum exceeds `limit`.
  double error(double limit) {
    double sum = 0;
    for (size_t batch = 0; batch < expected_.size(); ++batch) {
      sum += relative_error(expected_[batch], run_.run(batch), masks_[batch]);
      if (!(sum <= limit)) {
        sum = std::numeric_limits<double>::infinity();
        break;
      }
    }
    sum = sum_over(options_.peers, sum);
    return sum <= limit ? sum : std::numeric_limits<double>::infinity();
  }

  std::vector<Bounds> candidates(const Observer& observer) const {
    const QParams now = observer.calculate_qparams();
    const ObserverState seen = observer.state();
    const double scale = now.scale.front();
    const auto zero = static_cast<double>(now.zero_point.front());
    const Bounds whole{std::min(0.0, static_cast<double>(seen.min.front())),
                       std::max(0.0, static_cast<double>(seen.max.front()))};
    const Bounds base{(static_cast<double>(observer.quant_min()) - zero) * scale,
                      (static_cast<double>(observer.quant_max()) - zero) * scale};
    std::vector<Bounds> result = {whole};
    const auto add = [&](double min_factor, double max_factor) {
      const Bounds scaled{std::max(whole.min, base.min * min_factor),
                          std::min(whole.max, base.max * max_factor)};
      if (scaled.min < scaled.max) result.push_back(scaled);
    };
    for (const double factor : options_.factors) add(factor, factor);
    if (options_.factors.empty() || whole.min == 0 || whole.max == 0 ||
        is_symmetric(observer.args().qscheme))
      return result;
    const double least = *std::ranges::min_element(options_.factors);
    add(least, 1);
    add(1, least);
    return result;
  }

  bool tune_group(int group) {
    const std::shared_ptr<Observer> before = observed_.observers[static_cast<size_t>(group)];
    std::shared_ptr<Observer> best = before;
    for (const Bounds& bounds : candidates(*before)) {
      put(group, observer_with_range(*before, static_cast<float>(bounds.min),
                                     static_cast<float>(bounds.max)));
      const double now = error(least_ * (1 - kLeastGain));
      if (!std::isfinite(now)) continue;
      least_ = now;
      best = observed_.observers[static_cast<size_t>(group)];
    }
    put(group, best);
    return best != before;
  }

  void put(int group, const std::shared_ptr<Observer>& observer) {
    if (observed_.observers[static_cast<size_t>(group)] == observer) return;
    replace_observer(observed_, static_cast<size_t>(group), observer,
                     [this](size_t derived) { run_.refresh(static_cast<int>(derived)); });
    run_.refresh(group);
  }

  ObservedGraph& observed_;
  std::vector<std::vector<c10::IValue>> expected_;
  std::vector<at::Tensor> masks_;
  const RangeOptions& options_;
  FakeQuantRun run_;
  double total_;      // batches
  double least_ = 0;  // the error with the current ranges
};

Samples read_samples(const ObservedGraph& observed, const BatchSource& data, size_t total,
                     Peers* peers) {
  const size_t most = count_of_own(peers, total);
  Samples samples;
  Interpreter interpreter = float_interpreter(observed.graph);
  const std::optional<size_t> mask_input = find_padding_mask(observed.graph);
  while (samples.batches.size() < most) {
    std::optional<std::vector<c10::IValue>> batch = data();
    if (!batch) break;
    samples.outputs.push_back(interpreter.run(*batch));
    samples.masks.push_back(padding_mask_of(*batch, mask_input));
    samples.batches.push_back(std::move(*batch));
  }
  if (samples.batches.empty() && peers == nullptr)
    throw Error("ranges", "data", "no batches, got 0, want at least 1");
  return samples;
}

}  // namespace

RangeTuning tune_ranges(ObservedGraph& observed, const BatchSource& data, Report& report,
                        const RangeOptions& options) {
  if (options.batches == 0) throw Error("ranges", "batches", "got 0, want at least 1");
  for (const double factor : options.factors)
    if (!(factor > 0) || !std::isfinite(factor))
      throw Error("ranges", "factors", fmt::format("got {}, want numbers above 0", factor));
  if (const Verdict verdict = can_run_stepwise(observed.graph); !verdict) {
    report.note("ranges: left out: " + verdict.reason());
    return {};
  }
  note_padding_mask(observed.graph, "ranges", report);
  const RangeTuning result =
      RangeSearch(observed, read_samples(observed, data, options.batches, options.peers), options)
          .tune();
  report.note(fmt::format("ranges: {} of {} changed, {:.2f} -> {:.2f} dB on the calibration data",
                          result.changed, result.ranges, result.before_db, result.after_db));
  return result;
}

}  // namespace octet

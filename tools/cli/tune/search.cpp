#include "tools/cli/tune/search.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/error.h"
#include "tools/cli/tune/base_settings.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

// The assumed cost of a candidate without cost, so that gains decide among such candidates.
constexpr double kLeastCost = 0.002;
// The estimated error must be at most this part of the allowed error.
constexpr double kSafety = 0.8;
// An op's part of the estimate may be too large by this factor.
constexpr double kMistrust = 3;

class Search {
 public:
  Search(std::vector<TuneCandidate> candidates, const TuneGoal& goal, size_t most_trials,
         const MakeTrial& make_trial)
      : candidates_(std::move(candidates)),
        goal_(goal),
        most_trials_(most_trials),
        make_trial_(make_trial) {
    std::ranges::stable_sort(candidates_, [](const TuneCandidate& a, const TuneCandidate& b) {
      return a.gain / (a.cost + kLeastCost) > b.gain / (b.cost + kLeastCost);
    });
  }

  TuneOutcome run(const std::vector<Trial>& bases) && {
    size_t base = 0;
    for (size_t i = 0; i < bases.size() && has_trials(); ++i) {
      const size_t made = attempt(bases[i].config, bases[i].label);
      if (trial(made).error < trial(base).error) base = made;
      if (goal_.is_met_by(trial(made))) break;
    }
    if (!goal_.is_met_by(trial(base))) add_candidates(base);
    return finish();
  }

 private:
  bool has_trials() const { return outcome_.trials.size() < most_trials_; }
  const Trial& trial(size_t index) const { return outcome_.trials[index]; }
  bool is_enough(const Trial& made) const { return made.is_float || goal_.is_met_by(made); }

  // Returns the position of the trial; reuses an earlier one.
  size_t attempt(const Json& config, const std::string& label) {
    for (size_t i = 0; i < outcome_.trials.size(); ++i)
      if (outcome_.trials[i].config == config) return i;
    outcome_.trials.push_back(make_trial_(config, label));
    outcome_.trials.back().config = config;
    outcome_.trials.back().label = label;
    return outcome_.trials.size() - 1;
  }

  // taken: positions in candidates_.
  size_t attempt(size_t base, const std::vector<size_t>& taken) {
    Json config = trial(base).config;
    std::vector<size_t> order = taken;
    std::ranges::stable_sort(order, [&](size_t a, size_t b) {
      return candidates_[a].strength < candidates_[b].strength;
    });
    for (size_t index : order) config = merged(std::move(config), candidates_[index].config);
    return attempt(with_global(std::move(config)), label_of(taken));
  }

  // "7 changes, 4 in float, 3 with weights of 8 bits, the first %conv2d in float"
  std::string label_of(const std::vector<size_t>& taken) const {
    const std::string& first = candidates_[taken.front()].label;
    if (taken.size() == 1) return first;
    std::string text = std::to_string(taken.size()) + " changes, ";
    std::map<std::string, size_t> counts;
    for (size_t index : taken) ++counts[candidates_[index].choice];
    counts.erase("");
    if (counts.size() > 1)
      for (const auto& [choice, count] : counts)
        text += std::to_string(count) + " " + choice + ", ";
    return text + "the first " + first;
  }

  // The number of first candidates that promise an error of `wanted`; all if none do.
  size_t count_for(double error, double wanted, size_t taken) const {
    double left = 0;
    for (size_t i = taken; i < candidates_.size(); ++i) left += candidates_[i].gain;
    const double unit = left > 0 ? error / left : 0;
    while (taken < candidates_.size() && error > wanted) error -= unit * candidates_[taken++].gain;
    return taken;
  }

  void add_candidates(size_t base) {
    if (candidates_.empty()) return;
    size_t lacking = 0, enough = 0;  // candidates in the last trials that failed and that succeeded
    double error = trial(base).error;
    while (enough == 0 && lacking < candidates_.size() && has_trials()) {
      const size_t count =
          std::max(lacking + 1, count_for(error, kSafety * goal_.most_error, lacking));
      // from the second time on by halves, because the estimate was too optimistic
      const size_t step = lacking == 0 ? count : std::max(lacking + 1, (lacking + count + 1) / 2);
      const size_t made = attempt(base, first(step));
      if (is_enough(trial(made)))
        enough = step;
      else
        lacking = step;
      error = trial(made).error;
    }
    if (enough == 0) return;
    std::vector<size_t> taken = fewest(base, lacking, enough);
    give_back(base, std::move(taken));
  }

  static std::vector<size_t> first(size_t count) {
    std::vector<size_t> positions(count);
    std::iota(positions.begin(), positions.end(), size_t{0});
    return positions;
  }

  // Bisects between a count that fails and one that succeeds.
  std::vector<size_t> fewest(size_t base, size_t lacking, size_t enough) {
    while (enough - lacking > 1 && has_trials()) {
      const size_t middle = (lacking + enough) / 2;
      (is_enough(trial(attempt(base, first(middle)))) ? enough : lacking) = middle;
    }
    return first(enough);
  }

  // Removes candidates that are not needed, the costliest first. Skips those that, by the estimate,
  // are far beyond the error that is still allowed.
  void give_back(size_t base, std::vector<size_t> taken) {
    std::vector<size_t> order = taken;
    std::ranges::stable_sort(
        order, [&](size_t a, size_t b) { return candidates_[a].cost > candidates_[b].cost; });
    double error = trial(attempt(base, taken)).error;
    double gains = 0;
    for (size_t index : taken) gains += candidates_[index].gain;
    const double unit = gains > 0 ? (trial(base).error - error) / gains : 0;
    for (size_t index : order) {
      if (taken.size() == 1 || candidates_[index].cost == 0 || !has_trials()) return;
      const double loss = unit * candidates_[index].gain;
      if (loss > kMistrust * (goal_.most_error - error)) continue;
      std::vector<size_t> fewer = taken;
      fewer.erase(std::ranges::find(fewer, index));
      const Trial& made = trial(attempt(base, fewer));
      if (!is_enough(made)) continue;
      taken = std::move(fewer);
      error = made.error;
    }
  }

  TuneOutcome finish() {
    const auto is_better = [&](const Trial& a, const Trial& b) {
      if (a.is_float != b.is_float) return b.is_float;
      const bool a_met = goal_.is_met_by(a), b_met = goal_.is_met_by(b);
      if (a_met != b_met) return a_met;
      if (!a_met) return a.error < b.error;
      if (a.price() != b.price()) return a.price() < b.price();
      return a.error < b.error;
    };
    for (size_t i = 0; i < outcome_.trials.size(); ++i)
      if (is_better(trial(i), trial(outcome_.best))) outcome_.best = i;
    outcome_.is_reached = goal_.is_met_by(trial(outcome_.best));
    return std::move(outcome_);
  }

  std::vector<TuneCandidate> candidates_;
  const TuneGoal& goal_;
  size_t most_trials_;
  const MakeTrial& make_trial_;
  TuneOutcome outcome_;
};

}  // namespace

TuneOutcome search(const std::vector<Trial>& bases, const std::vector<TuneCandidate>& candidates,
                   const TuneGoal& goal, size_t most_trials, const MakeTrial& make_trial) {
  OCTET_ASSERT(!bases.empty() && most_trials > 0, "a base and a trial for it");
  return Search(candidates, goal, most_trials, make_trial).run(bases);
}

std::vector<size_t> choose_widths(const std::vector<std::vector<WidthOption>>& ops,
                                  double most_bytes) {
  std::vector<size_t> chosen(ops.size(), 0);
  double left = most_bytes;
  for (const std::vector<WidthOption>& options : ops) left -= options.front().bytes;
  while (true) {
    double best = 0;
    size_t op = 0, option = 0;
    for (size_t i = 0; i < ops.size(); ++i) {
      const WidthOption& now = ops[i][chosen[i]];
      for (size_t j = chosen[i] + 1; j < ops[i].size(); ++j) {
        const double more = ops[i][j].bytes - now.bytes;
        const double ratio = (now.loss - ops[i][j].loss) / std::max(more, 1.0);
        if (more > left || !(ratio > best)) continue;
        best = ratio;
        op = i;
        option = j;
      }
    }
    if (!(best > 0)) return chosen;
    left -= ops[op][option].bytes - ops[op][chosen[op]].bytes;
    chosen[op] = option;
  }
}

Json merged(Json config, const Json& more) {
  if (!more.is_object() || !config.is_object()) return more;
  for (const auto& [key, value] : more.items())
    config[key] = config.contains(key) ? merged(config.at(key), value) : value;
  return config;
}

std::vector<size_t> pareto_front(const std::vector<Trial>& trials) {
  const auto cost = [](const Trial& trial) { return trial.price(); };
  std::vector<size_t> front;
  for (size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].is_float) continue;
    const bool is_beaten = std::ranges::any_of(trials, [&](const Trial& other) {
      return !other.is_float && other.error <= trials[i].error && cost(other) <= cost(trials[i]) &&
             (other.error < trials[i].error || cost(other) < cost(trials[i]));
    });
    if (!is_beaten) front.push_back(i);
  }
  std::ranges::stable_sort(front,
                           [&](size_t a, size_t b) { return trials[a].error > trials[b].error; });
  return front;
}

}  // namespace octet

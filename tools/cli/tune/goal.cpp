#include "tools/cli/tune/goal.h"

#include <cmath>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {

double relative_error_of(double sqnr_db) { return std::pow(10.0, -sqnr_db / 10); }

OutputGoal OutputGoal::of_sqnr(double least_db) {
  return {Kind::kSqnr, relative_error_of(least_db)};
}

OutputGoal OutputGoal::of_drop(double most_lost) { return {Kind::kDrop, most_lost}; }

OutputGoal OutputGoal::of_metric(const std::string& name, double least, double best) {
  if (std::isnan(best) || (std::isinf(best) && best < 0))
    throw Error("tune", name,
                fmt::format("gives {} for the float program's outputs beside themselves, want the "
                            "largest number that it has",
                            best));
  if (best < least)
    throw Error("tune", fmt::format("--min-metric {}", least),
                fmt::format("is more than {} gives for the float program beside itself, {}; ask "
                            "for less",
                            name, best));
  OutputGoal goal(Kind::kMetric, 0);
  goal.metric_ = name;
  goal.best_ = best;
  goal.most_error_ = goal.error_of_metric(least);
  return goal;
}

double OutputGoal::error_of(const Quality& quality) const {
  if (kind_ == Kind::kSqnr) return relative_error_of(quality.median_db);
  if (kind_ == Kind::kDrop) return *quality.float_accuracy - *quality.accuracy;
  if (std::isnan(*quality.metric))
    throw Error("tune", metric_,
                "gives NaN for the outputs of a batch, want a number for each of them");
  return error_of_metric(*quality.metric);
}

// A metric without bound is taken to be in decibels, as peak signal to noise is.
double OutputGoal::error_of_metric(double value) const {
  return std::isinf(best_) ? relative_error_of(value) : best_ - value;
}

}  // namespace octet

// What is asked of the outputs, as one number that has to fall: the search knows no other.
#pragma once

#include "tools/cli/quantize/quality.h"

namespace octet {

class OutputGoal {
 public:
  static OutputGoal of_sqnr(double least_db);   // the median over batches
  static OutputGoal of_drop(double most_lost);  // a share of the samples, in [0, 1]
  // best: what the metric gives for the float program beside itself. Throws Error("tune", ...)
  // where that is no number or not enough.
  static OutputGoal of_metric(const std::string& name, double least, double best);

  double most_error() const { return most_error_; }
  // Throws Error("tune", ...) for a metric that says nothing.
  double error_of(const Quality& quality) const;

 private:
  enum class Kind { kSqnr, kDrop, kMetric };
  OutputGoal(Kind kind, double most_error) : kind_(kind), most_error_(most_error) {}
  double error_of_metric(double value) const;

  Kind kind_;
  double most_error_;
  std::string metric_ = {};
  double best_ = 0;
};

// 20 dB: 0.01.
double relative_error_of(double sqnr_db);

}  // namespace octet

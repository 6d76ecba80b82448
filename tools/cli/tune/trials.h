// Expresses the goal of tuning as one number that must fall, and stores trials in a file, so that
// an interrupted run resumes with the same trials.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/cli/quantize/quality.h"
#include "tools/cli/tune/search.h"

namespace octet {

class OutputGoal {
 public:
  static OutputGoal of_sqnr(double least_db);  // the median over batches
  // Any error is allowed; smaller is better. The error is the KL divergence (the metric is its
  // negative), without a metric that of the SQNR.
  static OutputGoal of_least();
  static OutputGoal of_drop(double most_lost);  // a share of the samples, in [0, 1]
  // best: the metric of the float program compared with itself. Throws Error("tune", ...) if that
  // is NaN or less than `least`.
  static OutputGoal of_metric(const std::string& name, double least, double best);

  double most_error() const { return most_error_; }
  // Throws Error("tune", ...) if the metric has no value.
  double error_of(const Quality& quality) const;

 private:
  enum class Kind { kSqnr, kDrop, kMetric, kLeast };
  OutputGoal(Kind kind, double most_error) : kind_(kind), most_error_(most_error) {}
  double error_of_metric(double value) const;

  Kind kind_;
  double most_error_;
  std::string metric_ = {};
  double best_ = 0;
};

// 20 dB: 0.01.
double relative_error_of(double sqnr_db);

// A trial as JSON: {"label", "config", "sqnr_db", "error", "float_share", "int16_share",
// "accuracy", "latency_ms", "weight_bits"}, with a metric "metric", with a goal of a size "bytes"
// and perhaps "divergence"; infinite figures as null.
nlohmann::ordered_json to_json(const Trial& trial);

// "31.2 dB, top5 0.93, 4.0 % of the multiply-accumulates in float, 3.120 ms".
std::string figures_of(const Trial& trial, const std::string& metric);

class TrialFile {
 public:
  // file: may be empty. run: describes what the trials depend on. Throws Error("tune", file, ...)
  // if the file is damaged, not a file of trials, or from another run. writes: false in all
  // processes except the first.
  TrialFile(std::string file, std::string run, bool writes = true);

  std::optional<Trial> find(const nlohmann::ordered_json& config) const;
  // These replace the file, whole or not at all. They throw Error("outputs", file, ...).
  void add(const Trial& trial);
  // Measured costs of candidates by label. They are kept because a new measurement would differ.
  void keep_costs(std::map<std::string, double> costs);
  const std::map<std::string, double>& costs() const { return costs_; }  // empty: none

 private:
  void write() const;

  std::string file_, run_;
  bool writes_;
  std::map<std::string, double> costs_;
  std::vector<Trial> trials_;
};

}  // namespace octet

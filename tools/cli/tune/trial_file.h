// Trials that were made, on disk: a tuning that was broken off goes on with the same ones.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/cli/tune/search.h"

namespace octet {

// A trial as JSON: {"label", "config", "sqnr_db", "error", "float_share", "accuracy",
// "latency_ms", "weight_bits"}, with a metric "metric"; infinite figures as null.
nlohmann::ordered_json to_json(const Trial& trial);

class TrialFile {
 public:
  // file: empty for none. run: what the trials depend on. Throws Error("tune", file, ...) when the
  // file is damaged, no such file of trials, or of another run. writes: false for processes beside
  // the first.
  TrialFile(std::string file, std::string run, bool writes = true);

  std::optional<Trial> find(const nlohmann::ordered_json& config) const;
  // These write the file anew, whole or not at all. They throw Error("outputs", file, ...).
  void add(const Trial& trial);
  // Costs of candidates by label, where they were measured: measured again they would be others.
  void keep_costs(std::map<std::string, double> costs);
  const std::map<std::string, double>& costs() const { return costs_; }  // empty: none are kept

 private:
  void write() const;

  std::string file_, run_;
  bool writes_;
  std::map<std::string, double> costs_;
  std::vector<Trial> trials_;
};

}  // namespace octet

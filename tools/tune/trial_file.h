// Trials that were made, on disk: a tuning that was broken off goes on with the same ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/tune/search.h"

namespace octet {

// A trial as JSON: {"label", "config", "sqnr_db", "error", "float_share", "accuracy",
// "latency_ms"}; infinite figures as null.
nlohmann::ordered_json to_json(const Trial& trial);

class TrialFile {
 public:
  // file: empty for none. run: what the trials depend on. Throws Error("tune", file, ...) when the
  // file is damaged, no such file of trials, or of another run. writes: false for processes beside
  // the first.
  TrialFile(std::string file, std::string run, bool writes = true);

  std::optional<Trial> find(const nlohmann::ordered_json& config) const;
  // Writes the file anew, whole or not at all. Throws Error("outputs", file, ...).
  void add(const Trial& trial);

 private:
  std::string file_, run_;
  bool writes_;
  std::vector<Trial> trials_;
};

}  // namespace octet

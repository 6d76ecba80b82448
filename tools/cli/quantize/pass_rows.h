// Reads "passes" and "effort" of a --config file: which accuracy passes may change which part of
// the program, and which parts get additional passes.
//
//   "passes": {"global": ["smooth"], "op_type": {"aten.linear": ["round"]},
//              "module_type": {"torch.nn.Conv2d": []}, "module_name_regex": {"blocks.*": []},
//              "module_name": {"head": ["round", "correct-bias"]}}
//
// This restricts the passes of --effort high or --passes. The row for a node is chosen as in the
// quantizers' settings (ConfigTable::row_of); without a row, all passes apply.
//
//   "effort": {"module_name": {"head": "high", "blocks.0": ["correct-bias", "round"],
//                              "stem": "none"},
//              "call_index": {"blocks.1": {"aten.linear.default": {"1": ["round"]}}}}
//
// The passes in a row run there, in addition to those of the run; "none": no pass runs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "annotate/accuracy/accuracy_passes.h"
#include "core/graph/graph.h"
#include "quantizers/common/module_filter.h"

namespace octet {

class PassRows {
 public:
  // Throws what ConfigTable::set throws.
  void set(const RowKey& row, std::vector<AccuracyPass> passes);

  // The passes in the node's row; null without a row.
  const std::vector<AccuracyPass>* find(const Node& node) const;
  bool applies(AccuracyPass pass, const Node& node) const;  // true without a row
  // All passes in rows, each once.
  std::vector<AccuracyPass> all() const;
  // Rows that match no node, as `module_name "x"`: usually a misspelling.
  std::vector<std::string> unused_rows(const Graph& graph) const {
    return table_.unused_rows(graph);
  }

 private:
  ConfigTable table_;  // finds the row of a node; its configurations are unused
  std::vector<std::pair<RowKey, std::vector<AccuracyPass>>> rows_;
};

// Nullopt if the file has no "passes". running: the passes of this run. Throws Error("quantizer",
// "FILE: /passes/...", ...) for values that are not lists of passes, for a pass that does not run,
// and if no pass runs.
std::optional<PassRows> read_pass_rows(const std::filesystem::path& config,
                                       const std::vector<AccuracyPass>& running);

// Nullopt if neither the file nor the settings that override it (both may be empty) have "effort".
// Throws Error("quantizer", "FILE: /effort/...", ...).
std::optional<PassRows> read_effort_rows(const std::string& config, const std::string& settings);

// For commands without passes. Throws Error("quantizer", ...) if the file has rows for passes.
void refuse_pass_rows(const std::string& config);

}  // namespace octet

// "passes" and "effort" of a --config file: which accuracy passes may change which part of the
// program, and which parts get more of them than the run gives to all.
//
//   "passes": {"global": ["smooth"], "op_type": {"aten.linear": ["round"]},
//              "module_type": {"torch.nn.Conv2d": []}, "module_name_regex": {"blocks.*": []},
//              "module_name": {"head": ["round", "correct-bias"]}}
//
// The passes themselves are those of --effort high or --passes. Which row decides for a node is as
// with the quantizers' settings (ConfigTable::row_of); where none fits, all passes apply.
//
//   "effort": {"module_name": {"head": "high", "blocks.0": ["correct-bias", "round"],
//                              "stem": "none"},
//              "call_index": {"blocks.1": {"aten.linear.default": {"1": ["round"]}}}}
//
// What a row names runs there, beside what the run does; "none": nothing does.
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
  // Throws Error as ConfigTable::set does.
  void set(const RowKey& row, std::vector<AccuracyPass> passes);

  // The passes of the row that covers the node; null when none does.
  const std::vector<AccuracyPass>* find(const Node& node) const;
  bool applies(AccuracyPass pass, const Node& node) const;  // true where no row is
  // The passes that some row names, each once.
  std::vector<AccuracyPass> all() const;
  // Rows that fit no node, as `module_name "x"`: most often a misspelling.
  std::vector<std::string> unused_rows(const Graph& graph) const {
    return table_.unused_rows(graph);
  }

 private:
  ConfigTable table_;  // which row a node has; its configurations say nothing
  std::vector<std::pair<RowKey, std::vector<AccuracyPass>>> rows_;
};

// Null when the file says nothing about passes. running: the passes of this run. Throws
// Error("quantizer", "FILE: /passes/...", ...) for values that are not lists of passes, for a pass
// that does not run, and when none runs.
std::optional<PassRows> read_pass_rows(const std::filesystem::path& config,
                                       const std::vector<AccuracyPass>& running);

// Null when neither the file nor the settings on top of it (both may be empty: none) say something
// of effort. Throws Error("quantizer", "FILE: /effort/...", ...).
std::optional<PassRows> read_effort_rows(const std::string& config, const std::string& settings);

// For commands that run no passes. Throws Error("quantizer", ...) when the file has rows for some.
void refuse_pass_rows(const std::string& config);

}  // namespace octet

// "passes" of a --config file: which accuracy passes may change which part of the program.
//
//   "passes": {"global": ["smooth"], "op_type": {"aten.linear": ["round"]},
//              "module_type": {"torch.nn.Conv2d": []}, "module_name_regex": {"blocks.*": []},
//              "module_name": {"head": ["round", "correct-bias"]}}
//
// The passes themselves are those of --effort high or --passes. Which row decides for a node is as
// with the quantizers' settings (ConfigTable::row_of); where none fits, all passes apply.
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

  bool applies(AccuracyPass pass, const Node& node) const;
  // Rows that fit no node, as `module_name "x"`: most often a misspelling.
  std::vector<std::string> unused_rows(const Graph& graph) const {
    return table_.unused_rows(graph);
  }

 private:
  ConfigTable table_;  // which row a node has; its configurations say nothing
  std::vector<std::pair<RowKey, std::vector<AccuracyPass>>> rows_;
};

// Null when the file says nothing about passes. running: the passes of this run. Throws
// Error("quantizer", "FILE: /passes/...", ...) for what is no list of passes, for a pass that does
// not run, and when none runs.
std::optional<PassRows> read_pass_rows(const std::filesystem::path& config,
                                       const std::vector<AccuracyPass>& running);

}  // namespace octet

// What `octet compare` found, as a table, as JSON and as CSV.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "annotate/compare/compare.h"
#include "annotate/compare/weights.h"
#include "core/graph/graph.h"
#include "tools/cli/compare/lowered.h"

namespace octet {

struct ComparisonReport {
  std::string title = {}, subtitle = {};
  const Graph* subject = nullptr;  // null when two lowered programs were compared
  Comparison comparison = {};
  std::vector<WeightComparison> weights = {};
  std::optional<LoweredComparison> lowered = {};
  std::string metric = {};  // its name; "": none
};

// {"kind": "compare", "title", "subtitle", "summary", "notes", "nodes"} as tools/page describes it:
// a node for each op of the subject, with its errors, rank, cause and what to try. Where there is
// a metric, its name is "metric".
nlohmann::ordered_json compare_json(const ComparisonReport& report);

// A line for each compared op, in the order of their rank; a heading first. Numbers that are
// infinite are inf and -inf, what was not measured is empty.
std::string compare_csv(const nlohmann::ordered_json& json);

// The first `count` by rank, aligned, with causes; and the setting to try for the first of them.
std::vector<std::string> compare_table(const nlohmann::ordered_json& json, size_t count);

}  // namespace octet

// Formats the result of `octet compare` as a table, as JSON and as CSV.
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

// {"kind": "compare", "title", "subtitle", "summary", "notes", "nodes"} as page.schema.json
// describes: a node for each op of the subject, with its errors, rank, cause and suggestion. With a
// metric, "metric" is its name.
nlohmann::ordered_json compare_json(const ComparisonReport& report);

// A heading, then a line for each compared op in the order of rank. Infinite numbers are inf and
// -inf; what was not measured is empty.
std::string compare_csv(const nlohmann::ordered_json& json);

// The first `count` ops by rank with their causes, aligned, and the suggested setting for the first
// of them.
std::vector<std::string> compare_table(const nlohmann::ordered_json& json, size_t count);

}  // namespace octet

// Comparisons of parts of the data, by several processes, put together.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/compare/report.h"

namespace octet {

// The sums of a comparison as bytes for another process of this machine type.
std::string pack_sums(const ComparisonReport& report);

// Adds what pack_sums() gave of the same programs on other batches: as if one process had seen them
// all, but for the order of sums. Throws Error("compare", "a process", ...) when the programs were
// others there.
void add_sums(ComparisonReport& report, const std::string& packed);

}  // namespace octet

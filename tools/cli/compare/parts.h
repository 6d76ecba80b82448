// Combines comparisons that several processes made on parts of the data.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/compare/report.h"

namespace octet {

// Serializes the sums of a comparison for another process on the same kind of machine.
std::string pack_sums(const ComparisonReport& report);

// Adds the sums of the same comparison on other batches, as if one process had seen all batches;
// only the order of summation differs. Throws Error("compare", "a process", ...) if the other
// process compared different programs.
void add_sums(ComparisonReport& report, const std::string& packed);

}  // namespace octet

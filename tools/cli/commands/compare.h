// The options of `octet compare`, which compares two programs op by op and finds the cause of their
// difference, and of octet.compare in Python.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/common/options.h"

namespace octet {

struct CompareRequest {
  std::vector<std::string> files, outputs, libraries;
  std::string inputs, labels, metric;
  size_t top = 20;
  std::optional<size_t> batches;  // by default all
  std::optional<double> min_sqnr, max_steps, max_drop;
};

Options options_of(CompareRequest& request);

}  // namespace octet

// Runs passes in a row: verifies the graph after each and logs what it did.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

struct Pass {
  std::string name;
  std::function<int(Graph&)> run;  // returns the number of changes
};

using LogSink = std::function<void(const std::string& line)>;

// Runs the passes in order. Each gives one line to `log` (may be empty): "fold_conv_bn: 3 changes,
// 41 -> 38 nodes (0.4 ms)" or "fold_conv_bn: (unchanged) (0.1 ms)". Returns the number of changes
// in all. Throws what a pass or verify() throws, verify's with the name of the pass in front.
int run_passes(Graph& graph, const std::vector<Pass>& passes, const LogSink& log = {});

}  // namespace octet

// Compares Octet's integer reference representation with torchao's (reference.json of a golden
// case).
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "support/golden.h"

namespace octet::test {

// The differences, a line for each output; empty when each output is the same tree of ops down to
// the inputs and constants (constants by dtype and shape, integer literals exactly, scales not at
// all). Arithmetic on literals alone, which torchao leaves in the graph, is ignored.
std::vector<std::string> compare_reference(const Graph& graph, const GoldenCase& golden);

}  // namespace octet::test

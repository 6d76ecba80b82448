// Comparing Octet's integer reference representation with the peer's (reference.json of a golden
// case).
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "support/golden.h"

namespace octet::test {

// What differs, one line an output; empty when each output is the same tree of ops down to the
// inputs and constants (constants by dtype and shape, integer literals exact, scales left out).
// Arithmetic on literals alone, which the peer leaves in the graph, does not count.
std::vector<std::string> compare_reference(const Graph& graph, const GoldenCase& golden);

}  // namespace octet::test

// Sizes that only a run seems to decide, and that constants decide after all: how many elements a
// constant mask selects, how often constant counts repeat a row, a constant's item().
#pragma once

#include "core/graph/graph.h"

namespace octet {

// fold_input_free(kConstants), and: what reads a constant mask or constant counts reads constant
// indices instead, and symbols whose values follow are numbers everywhere in the graph. Returns
// the number of nodes folded.
int fold_constants_and_sizes(Graph& graph);

}  // namespace octet

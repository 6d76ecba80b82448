// Folds data-dependent sizes that constants decide: how many elements a constant mask selects, how
// often constant counts repeat a row, a constant's item().
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Runs fold_input_free(kConstants), replaces reads of constant masks and counts by reads of
// constant indices, and substitutes the symbols whose values follow everywhere in the graph.
// Returns the number of nodes folded.
int fold_constants_and_sizes(Graph& graph);

}  // namespace octet

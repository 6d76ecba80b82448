// Removes what cannot change the result.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Whether a call may do more than compute its results: it writes to an argument, asserts, has no
// results, draws random numbers, or is unknown.
bool has_side_effects(const Node& node);

enum class DeadInputs { kKeep, kRemove };

// Erases nodes without users, consumers first, but those with side effects. kRemove also drops
// parameters, buffers and tensor constants that nothing uses, with their data, and data that no
// input names. Returns the number of nodes and inputs removed.
int remove_dead(Graph& graph, DeadInputs inputs = DeadInputs::kKeep);

}  // namespace octet

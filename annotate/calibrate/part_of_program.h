// The part of an observed program that some of its observers need.
#pragma once

#include <unordered_set>

#include "annotate/observed/observed_graph.h"

namespace octet {

// A copy without the observer nodes of other groups than these, and without the nodes that no
// observed value depends on, in-place writes to other memory among them. It returns nothing. Its
// observers are the same objects, so what it learns the original knows; those of other groups are
// left out of it. REQUIRES: no opaque parts, no bodies of control flow, and no output but the
// user's.
ObservedGraph part_for_groups(const ObservedGraph& observed, const std::unordered_set<int>& groups);

}  // namespace octet

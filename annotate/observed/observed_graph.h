// What prepare gives: a graph that observes itself while it runs.
#pragma once

#include <memory>
#include <vector>

#include "annotate/annotation/annotation.h"
#include "annotate/graph/observe_op.h"
#include "annotate/graph/opaque_parts.h"
#include "annotate/observers/observer.h"
#include "core/graph/graph.h"

namespace octet {

// A graph with observer nodes, to be calibrated and then converted. Bodies of control flow have
// theirs within them; the groups count through all graphs, and so do the annotations.
struct ObservedGraph {
  Graph graph;
  // by group; a group without observer node keeps its observer
  std::vector<std::shared_ptr<Observer>> observers;
  Annotations annotations;
  std::vector<Island> islands = {};  // the opaque parts, of the program and of its bodies
};

}  // namespace octet

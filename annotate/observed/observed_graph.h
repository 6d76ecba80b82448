// What prepare gives: a graph that observes itself while it runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/qparams.h"
#include "annotate/graph/opaque_parts.h"
#include "annotate/graph/qdq_nodes.h"
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

// Scale and zero point of an observer node, whoever wrote the observer.

// What errors call the point: "%x -> %linear (observer group 3)" when one node reads it, else
// "%x (observer group 3)".
std::string subject_of_point(const Node& point);

// What the observer of the point computes. Throws Error("convert", subject_of_point(point), ...) as
// calculate_qparams() and check_qparams() do, and, of observers without blocks, unless there is one
// scale, or one for each channel of the observed value.
QParams qparams_at(const Node& point, const Observer& observer);

}  // namespace octet

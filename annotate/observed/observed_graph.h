// The result of prepare: a graph with observer nodes, which sees ranges while it runs.
#pragma once

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/qparams.h"
#include "annotate/graph/opaque_parts.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/observers/observer.h"
#include "core/graph/graph.h"

namespace octet {

// A graph with observer nodes, to be calibrated and then converted. Bodies of control flow contain
// their own observer nodes; groups and annotations are numbered through all graphs.
struct ObservedGraph {
  Graph graph;
  // by group; a group without an observer node keeps its observer
  std::vector<std::shared_ptr<Observer>> observers;
  Annotations annotations;
  std::vector<Island> islands = {};  // opaque parts of the program and of its bodies
};

// The name of an observer node in errors: "%x -> %linear (observer group 3)" with a single reader,
// else "%x (observer group 3)".
std::string subject_of_point(const Node& point);

// Scale and zero point that the node's observer computes. Throws Error("convert",
// subject_of_point(point), ...) as calculate_qparams() and check_qparams() do and, for observers
// without blocks, unless there is one scale, or one per channel of the observed value.
QParams qparams_at(const Node& point, const Observer& observer);
// Scale and zero point of a value, from the first observer node that reads it: what a hook of an
// opaque part writes into the quantized form. Throws Error("convert", ...) as above, and when
// nothing observes the value.
QParams qparams_of(const ObservedGraph& observed, const Value& value);

}  // namespace octet

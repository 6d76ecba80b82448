// Scale and zero point of an observer node, whoever wrote the observer.
#pragma once

#include <string>

#include "annotate/annotation/qparams.h"
#include "annotate/observers/observer.h"
#include "core/graph/graph.h"

namespace octet {

// What errors call the point: "%x -> %linear (observer group 3)" when one node reads it, else
// "%x (observer group 3)".
std::string subject_of_point(const Node& point);

// What the observer of the point computes. Throws Error("convert", subject_of_point(point), ...) as
// calculate_qparams() and check_qparams() do, and, of observers without blocks, unless there is one
// scale, or one for each channel of the observed value.
QParams qparams_at(const Node& point, const Observer& observer);

}  // namespace octet

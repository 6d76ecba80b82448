// What of a program stayed float after convert, and why.
#pragma once

#include "annotate/annotation/annotation.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// Adds an entry for each of find_float_ops() (annotate/graph/float_ops.h) that the report does not
// speak of yet and none of whose inputs has a spec (of a linear op with quantized weights the input
// stays float because the quantizer wants it so). Returns the number of entries added.
int report_float_ops(const Graph& graph, const Annotations& annotations, Report& report);

}  // namespace octet

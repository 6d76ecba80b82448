// What of a program stayed float after convert, and why.
#pragma once

#include <vector>

#include "annotate/annotation.h"
#include "core/graph.h"
#include "core/report.h"

namespace octet {

// An ATen op that computes a float tensor from float tensors: views, copies and shape arithmetic don't count.
bool computes_on_floats(const Node& node);

// The compute ops of a q/dq graph with a float input that is neither dequantized, nor constant, nor made of nothing (zeros), nor the result of a
// quantized op that they alone take. Views, copies and shape arithmetic do not count, nor do ops on constants alone.
std::vector<const Node*> find_float_ops(const Graph& graph);

// Adds an entry for each of them that the report does not speak of yet and none of whose inputs has a spec (of a linear op with quantized weights the
// input stays float because the quantizer wants it so). Returns the number of entries added.
int report_float_ops(const Graph& graph, const Annotations& annotations, Report& report);

}  // namespace octet

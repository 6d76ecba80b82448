// Specs at the border of an island.
#pragma once

#include <vector>

#include "annotate/annotation/annotation.h"
#include "annotate/graph/opaque_parts.h"

namespace octet {

// The edges and values that the part's quantized_inputs and quantized_outputs speak of, with their
// specs: of an input the edges into all ops that read it, which share one observer. Throws
// Error("quantizer", name_of(part), ...) for an index that the island lacks, a tensor that is not
// float32, an output of an op with several results, and an input to be shared that has no spec.
std::vector<std::pair<EdgeOrNode, SpecVariant>> border_specs(const OpaquePart& part,
                                                             const Island& island);

// Writes them into the annotations of the island's nodes.
void place_border_specs(const std::vector<std::pair<EdgeOrNode, SpecVariant>>& specs,
                        Annotations& annotations);

}  // namespace octet

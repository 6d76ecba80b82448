// What can be said against annotations before anything is observed, and against scales once they
// are known.
#pragma once

#include <functional>
#include <string>

#include "annotate/annotation/annotation.h"
#include "annotate/observed/observed_graph.h"

namespace octet {

// Shared specs must end at a tensor with a spec of its own. `place_of` says where an annotation
// comes from, for messages; "": not asked about. Throws Error("quantizer", that place, "%b -> %add
// shares the observer of %a -> %add, which has no spec; ...").
void check_shared_specs(const Graph& graph, const Annotations& annotations,
                        const std::function<std::string(const QuantizationAnnotation&)>& place_of);

// Whether tensors keep within the limits of their annotations (quant_limits.h). As far as specs
// say, shared ones followed to their end. For Quantizer::validate. Throws Error("quantizer", the
// limits' place, "%x -> %relu: quant_max is 255, want at most 127 (quant_max_upper_bound); ..."),
// and as find_sharing_groups.
void check_spec_limits(const Graph& graph, const Annotations& annotations);

// The scales and zero points that calibration found; convert_pt2e asks. Observers without data are
// left to convert. Throws Error("convert", ...) likewise.
void check_scale_limits(const ObservedGraph& observed);

}  // namespace octet

// Whether annotated tensors keep within what their backend asks of dtype, range, scale and zero point (quant_limits.h).
#pragma once

#include "annotate/annotation.h"
#include "annotate/prepare.h"

namespace octet {

// As far as specs say, shared ones followed to their end. For Quantizer::validate. Throws Error("quantizer", the limits' place, "%x -> %relu: quant_max
// is 255, want at most 127 (quant_max_upper_bound); ..."), and as find_sharing_groups.
void check_spec_limits(const Graph& graph, const Annotations& annotations);

// The scales and zero points that calibration found; convert_pt2e asks. Observers without data are left to convert. Throws Error("convert", ...) likewise.
void check_scale_limits(const ObservedGraph& observed);

}  // namespace octet

// Checks annotations before anything is observed, and scales after calibration, against the
// backend's limits (quant_limits.h).
#pragma once

#include "annotate/annotation/annotation.h"
#include "annotate/observed/observed_graph.h"

namespace octet {

// Checks that shared specs lead to a tensor with a spec that is not shared. `place_of`: where an
// annotation is written, for messages; "": skip it. Throws Error("quantizer", that place, "%b ->
// %add shares the observer of %a -> %add, which has no spec; ...").
void check_shared_specs(const Graph& graph, const Annotations& annotations,
                        const std::function<std::string(const QuantizationAnnotation&)>& place_of);

// Calls `visit` for each tensor with limits.
using LimitVisitor = std::function<void(const QuantLimits&, const EdgeOrNode&)>;
void visit_limits(const Graph& graph, const Annotations& annotations, const LimitVisitor& visit);

// Checks specs against the limits of their annotations, as far as specs tell; shared specs are
// followed. For use in Quantizer::validate. Throws Error("quantizer", the limits' place, "%x ->
// %relu: quant_max is 255, want at most 127 (quant_max_upper_bound); ..."), and as
// find_sharing_groups does.
void check_spec_limits(const Graph& graph, const Annotations& annotations);

// Checks the scales and zero points found by calibration; called by convert_pt2e. Observers without
// data are skipped. Throws Error("convert", ...) in the same form.
void check_scale_limits(const ObservedGraph& observed);

}  // namespace octet

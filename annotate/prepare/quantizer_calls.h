// Calls the functions of a Quantizer, and refuses where it happens what a Quantizer must not do.
// What it throws becomes an Error that names it.
#pragma once

#include "annotate/annotation/quantizer.h"

namespace octet {

// Throws Error("prepare", name, ...) when the graph is broken afterwards (core/passes/verify.h).
void transform_by(Quantizer& quantizer, Graph& graph);

// Annotates and validates. Throws Error("annotate", name, ...) when annotate() edits the graph, or
// annotates a node that is not in it.
void annotate_by(Quantizer& quantizer, Graph& graph, Annotations& annotations, Report& report);

// Lets it change the observers (prepare_obs_or_fq_callback).
void offer_observers(Quantizer& quantizer, const Graph& graph, ObserverMap& observers);

}  // namespace octet

// Ranges below the least scale (eps) of their spec, which that scale would turn into zeros.
//
//   a factor of 1e-6 and eps 2^-12      1e-6 / 2^-12 = 0.004 steps: all zeros
//   with a finer scale, 1e-6 / 127      127 steps
//
// LayerScale, dead channels behind a folded batch norm and tokens that begin at zero are such.
#pragma once

#include "annotate/annotation/quant_spec.h"
#include "annotate/annotation/sharing.h"
#include "annotate/observed/observed_graph.h"
#include "core/base/report.h"

namespace octet {

// The least scale that is ever taken: the product of two of them is a normal float.
inline constexpr float kFinestScale = 0x1p-60f;

// Lets the observers of static specs take finer scales (Observer::allow_finer_scales) for ranges
// to which eps would leave less than fewest_steps(). Where an annotation asks for a
// scale_min_lower_bound, that is the finest.
void lower_scale_floors(const Graph& graph, const Annotations& annotations,
                        const SharingGroups& groups,
                        const std::vector<std::shared_ptr<Observer>>& observers);

// Coarser scales for channels of weights that got finer ones and whose bias would else not fit into
// int32 at scale(x) * scale(w): there the bias is all that counts. Runs after calibration. Returns
// the number of such channels.
int fit_weights_to_biases(ObservedGraph& observed);

// A note about the tensors that got finer scales, one about those of which a least scale that stays
// (torchao's, a constraint's) leaves no more than some steps, and a detail for each tensor. Not
// where a bias asks for the scale: it is all that counts there.
void report_scale_floors(const ObservedGraph& observed, Compat compat, Report& report);

}  // namespace octet

// Handles ranges so small that the least scale (eps) of their spec would turn them into zeros:
//
//   a factor of 1e-6 and eps 2^-12      1e-6 / 2^-12 = 0.004 steps: all zeros
//   with a finer scale, 1e-6 / 127      127 steps
//
// LayerScale, channels that a folded batch norm switches off, and tokens initialized near zero have
// such ranges.
#pragma once

#include "annotate/annotation/quant_spec.h"
#include "annotate/annotation/sharing.h"
#include "annotate/observed/observed_graph.h"
#include "core/base/report.h"

namespace octet {

// The least scale ever used: the product of two of them is a normal float.
inline constexpr float kFinestScale = 0x1p-60f;

// Allows observers of static specs finer scales (Observer::allow_finer_scales) for ranges to which
// eps would leave fewer than fewest_steps(), down to the annotation's scale_min_lower_bound if it
// has one.
void lower_scale_floors(const Graph& graph, const Annotations& annotations,
                        const SharingGroups& groups,
                        const std::vector<std::shared_ptr<Observer>>& observers);

// Makes scales coarser again for channels of weights that got finer ones and whose bias would not
// fit into int32 at scale(x) * scale(w): the bias decides the output of such channels. Runs after
// calibration. Returns the number of such channels.
int fit_weights_to_biases(ObservedGraph& observed);

// Reports the tensors that got finer scales, and those for which a fixed least scale (torchao's, a
// constraint's) leaves only a few steps: a note for each kind, and a detail for each tensor.
// Weights whose scale follows their bias are not mentioned.
void report_scale_floors(const ObservedGraph& observed, Compat compat, Report& report);

}  // namespace octet

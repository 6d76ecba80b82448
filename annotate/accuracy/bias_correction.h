// Corrects biases: subtracts from each layer's output, per channel, the mean error that rounding
// and clipping cause (Nagel et al. 2019; here the means are measured on calibration data).
//
//   bias' = mean(float output) - mean(rounded weight * quantized input)
#pragma once

#include "annotate/accuracy/layer_walk.h"
#include "core/base/report.h"

namespace octet {

// Visits the layers in graph order; each sees the inputs that the corrected layers before it
// produce. Layers without a bias are skipped, as adding one would change the graph.
// Biases with a derived spec keep it: convert rounds the new one with scale(x) * scale(w).
//
// REQUIRES: `observed` is calibrated, and convert will round the weights to nearest. Returns the
// number of biases changed. A program that cannot be run stepwise is left unchanged, with a note
// that says why. Throws Error("bias correction", ...) without data and for NaN in the data.
int correct_biases(ObservedGraph& observed, const BatchSource& data, Report& report,
                   const WalkOptions& options = {});

}  // namespace octet

// Adaptive rounding (AdaRound): each weight goes to the grid point below or above it. Which one is
// a number between 0 and 1 for each weight, found by gradient descent on the output's squared error
// together with a penalty that drives the numbers to 0 or 1 and grows sharper with time.
#pragma once

#include "annotate/accuracy/weight_rounding.h"

namespace octet {

struct AdaptiveOptions {
  int iterations = 1000;        // steps of gradient descent for each layer; >= 1
  double learning_rate = 0.02;  // of Adam; > 0
  // weight of the penalty; the mean error of the nearest rounding counts as 1; > 0
  double regularization = 0.1;
  double warm_up = 0.2;  // share of the iterations without penalty; in [0, 1)
};

// Deterministic: there is no random start and no sampling, as the error is known for all data at
// once. Throws Error("adaptive rounding", option, ...) for bad options.
RoundingMethod adaptive_method(const AdaptiveOptions& options = {});

// round_weights() by that method.
std::vector<LayerRounding> round_adaptive(ObservedGraph& observed, const BatchSource& data,
                                          Report& report, const RoundingOptions& options = {},
                                          const AdaptiveOptions& method = {});

}  // namespace octet

// Takes the mean error that quantization makes out of each layer's output, by its bias: what
// rounding and clipping shift on average, channel by channel.
//
//   bias' = mean(float output) - mean(rounded weight * quantized input)
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "annotate/accuracy/layer_walk.h"
#include "core/base/report.h"

namespace octet {

struct BiasOptions {
  size_t max_bytes = WalkOptions().max_bytes;
  // the float program where passes before have changed weights or biases; null: as the observed
  // graph stands
  const Graph* reference = nullptr;
  NodeFilter applies = {};  // of the layers
  // others that walk on other batches at the same time: sums are over all; null: none
  Peers* peers = nullptr;
  std::function<void(size_t done, size_t total, const std::string& layer)> progress = {};
};

// Layer after layer in graph order: each sees the inputs that the corrected ones before it give.
// Layers without a bias of their own stay as they are, as adding one would change the graph. Biases
// with a derived spec stay derived: convert rounds the new one with scale(x) * scale(w). REQUIRES:
// observed is calibrated; weights are those that convert will round to the nearest. Returns the
// number of biases changed. Where the program cannot be run stepwise nothing changes, and a note
// says why. Throws Error("bias correction", ...) without data and for NaN in the data.
int correct_biases(ObservedGraph& observed, const BatchSource& data, Report& report,
                   const BiasOptions& options = {});

}  // namespace octet

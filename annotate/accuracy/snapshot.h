// What a pass over weights, biases and ranges did to an observed graph, apart from the pass: enough
// to do it again at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/accuracy/matrix_layers.h"
#include "annotate/observed/observed_graph.h"
#include "core/base/report.h"

namespace octet {

struct PassOutcome {
  struct NewTensor {
    size_t layer = 0;  // in the order of find_matrix_layers()
    bool is_bias = false;
    at::Tensor value;
  };
  struct NewRange {
    size_t group = 0;
    float min = 0, max = 0;
  };

  std::string pass;
  std::vector<NewTensor> tensors;
  std::vector<NewRange> ranges;  // of observers that the pass replaced
  Report report;                 // what it said
};

// Weights, biases and observers as they are, to be compared with what a pass makes of them.
class StateBeforePass {
 public:
  explicit StateBeforePass(const ObservedGraph& observed);
  // REQUIRES: since then nothing has changed but weights and biases of matrix layers, and observers
  // of one range by others.
  PassOutcome difference(const ObservedGraph& observed) const;

 private:
  struct Layer {
    at::Tensor weight, bias;  // undefined where the layer owns none
  };
  static std::vector<Layer> layers_of(const ObservedGraph& observed);

  std::vector<Layer> layers_;
  std::vector<std::shared_ptr<Observer>> observers_;
};

// REQUIRES: observed is as it was before the pass. Throws Error("quantize", pass, ...) where the
// outcome is another graph's.
void apply(const PassOutcome& outcome, ObservedGraph& observed);

// Other observers in the place of those of a prepared graph: for passes that change the graph or
// its ranges behind calibration.

// By group, of the same kinds and arguments; those with fixed qparams are the same ones, derived
// ones follow the new ones.
std::vector<std::shared_ptr<Observer>> fresh_observers(const ObservedGraph& observed);

// Puts `observer` in the place of group's; derived observers follow it. Calls back for each of
// those.
void replace_observer(ObservedGraph& observed, size_t group,
                      const std::shared_ptr<Observer>& observer,
                      const std::function<void(size_t derived_group)>& followed = {});
// A min_max observer of the same spec with this range.
std::shared_ptr<Observer> observer_with_range(const Observer& observer, float min, float max);

}  // namespace octet

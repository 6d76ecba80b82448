// Records and restores what accuracy passes change in an observed graph: weights, biases and
// observers.
#pragma once

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
  std::vector<NewRange> ranges;  // ranges of the observers that the pass replaced
  Report report;                 // what the pass reported
};

// The state of all observers and of the weights and biases of the matrix layers at one moment.
class LayerSnapshot {
 public:
  explicit LayerSnapshot(const ObservedGraph& observed);
  // REQUIRES, for both: since then only weights and biases of matrix layers have changed, and
  // observers have been replaced; for difference(), by observers with one range.
  void restore(ObservedGraph& observed) const;
  PassOutcome difference(const ObservedGraph& observed) const;

 private:
  struct Layer {
    at::Tensor weight;
    at::Tensor bias;  // undefined where the layer owns none
  };
  static std::vector<Layer> layers_of(const ObservedGraph& observed);

  std::vector<Layer> layers_;  // in the order of find_matrix_layers()
  std::vector<std::shared_ptr<Observer>> observers_;
};

// Makes the recorded changes again. REQUIRES: `observed` is as it was before the pass. Throws
// Error("quantize", pass, ...) when the outcome belongs to another program.
void apply(const PassOutcome& outcome, ObservedGraph& observed);

// New observers of the same kinds and arguments, by group. Observers with fixed qparams are kept;
// derived ones follow the new observers.
std::vector<std::shared_ptr<Observer>> fresh_observers(const ObservedGraph& observed);

// Replaces the observer of a group. Derived observers follow the new one, and `followed` is called
// for each of them.
void replace_observer(ObservedGraph& observed, size_t group,
                      const std::shared_ptr<Observer>& observer,
                      const std::function<void(size_t derived_group)>& followed = {});
// A min_max observer of the same spec with the given range.
std::shared_ptr<Observer> observer_with_range(const Observer& observer, float min, float max);

}  // namespace octet

// Whether a pass over weights and biases made the program's outputs better on data that the pass
// did not see; if not by 0.3 dB, all is as it was before. Outputs with a row for each token
// (padding_mask.h) count twice: row by row, and their mean, as which many are used; errors that all
// rows share show only there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/accuracy/matrix_layers.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/peers.h"

namespace octet {

// How far a quantized program's outputs are from those of the float program.
class HeldOutData {
 public:
  // Keeps all batches of `data`, with the outputs of `reference`, the float program. Throws
  // Error("quantize", "data", ...) without data. peers: those that have other batches, whose errors
  // count too; must outlive this; null: none.
  HeldOutData(const Graph& reference, const BatchSource& data, Peers* peers = nullptr);
  // Squared, relative to the outputs' energy. REQUIRES: can_run_stepwise(observed.graph); observed
  // is calibrated.
  double error(const ObservedGraph& observed) const;

 private:
  std::vector<std::vector<c10::IValue>> batches_;
  std::vector<std::vector<c10::IValue>> outputs_;
  std::vector<at::Tensor> masks_;
  Peers* peers_;
};

// "A -> B dB on calibration data held out"; and whether that is a gain worth keeping.
struct HeldOutGain {
  double before = 0;  // errors
  double after = 0;

  bool is_enough() const;
  std::string description() const;  // with ", undone" when it is not enough
};

// Weights and biases of the matrix layers, and all observers, as they are at one time.
class LayerSnapshot {
 public:
  explicit LayerSnapshot(const ObservedGraph& observed);
  // REQUIRES: nothing else has changed since.
  void restore(ObservedGraph& observed) const;

 private:
  struct Kept {
    at::Tensor weight;
    at::Tensor bias;  // undefined where the layer owns none
  };
  std::vector<Kept> kept_;  // by layer, in the order of find_matrix_layers()
  std::vector<std::shared_ptr<Observer>> observers_;
};

class HeldOutCheck {
 public:
  // Before the pass. REQUIRES: as HeldOutData::error(); observed outlives this.
  HeldOutCheck(ObservedGraph& observed, HeldOutData data);
  // After it. REQUIRES: the pass changed nothing but weights, biases and observers.
  HeldOutGain keep_or_undo();
  void undo() { snapshot_.restore(observed_); }

 private:
  ObservedGraph& observed_;
  HeldOutData data_;
  LayerSnapshot snapshot_;
  double before_;
};

}  // namespace octet

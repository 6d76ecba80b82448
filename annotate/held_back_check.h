// Whether a pass over weights and biases made the program's outputs better on data that the pass did not see; if not by 0.3 dB, all is as it was before. Outputs
// with a row for each token (row_mask.h) count twice: row by row, and their mean, as which many are used; errors that all rows share show only there.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/calibrate.h"
#include "annotate/matrix_layers.h"

namespace octet {

class HeldBackCheck {
 public:
  // Before the pass. Keeps all batches of `data`, with the outputs of `reference`, the float program, and a copy of the weights and biases of the matrix layers. REQUIRES:
  // can_run_stepwise(observed.graph); observed is calibrated and outlives this. Throws Error("quantize", "data", ...) without data.
  HeldBackCheck(ObservedGraph& observed, const Graph& reference, const BatchSource& data);
  // After it: "A -> B dB on calibration data held back", or that and ", undone". REQUIRES: the pass changed nothing but those weights and biases.
  std::string keep_or_undo();
  // Weights and biases as they were at first.
  void undo();

 private:
  struct Kept {
    at::Tensor weight;
    at::Tensor bias;  // undefined where the layer owns none
  };
  double error() const;  // squared, relative to the outputs' energy

  ObservedGraph& observed_;
  std::vector<std::vector<c10::IValue>> batches_;
  std::vector<std::vector<c10::IValue>> outputs_;
  std::vector<at::Tensor> masks_;
  std::vector<Kept> kept_;  // by layer, in the order of find_matrix_layers()
  double before_ = 0;
};

}  // namespace octet

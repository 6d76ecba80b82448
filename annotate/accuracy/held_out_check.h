// Checks on held-out data whether a pass over weights, biases or ranges improved the program's
// outputs, and undoes the pass unless it gained 0.3 dB.
//
// Outputs with a row per token (padding_mask.h) are judged twice: row by row, and by the mean over
// rows, which many models compute next. An error that all rows share shows up only in the mean.
//
// Logits of a language model are judged by the KL divergence of the probabilities, as an error in
// the logit of an unlikely token changes little.
#pragma once

#include <ATen/core/Tensor.h>

#include "annotate/accuracy/smooth.h"
#include "annotate/accuracy/snapshot.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/calibrate/observer_memory.h"
#include "annotate/observed/peers.h"

namespace octet {

// The entries of an output with a logit for each row of the largest table of embeddings; 0: there
// is none.
int64_t find_vocabulary(const Graph& graph);
// The mean KL divergence of the probabilities over all rows of two tensors of logits [...,
// vocabulary].
double logit_divergence(const at::Tensor& expected, const at::Tensor& actual);

// The errors before and after a pass, and whether the difference is worth keeping.
struct HeldOutGain {
  double before = 0;  // errors
  double after = 0;
  bool is_divergence = false;  // of logits

  bool is_enough() const;
  // "A -> B dB on held-out calibration data", or "KL divergence A -> B on ...", with ", undone"
  // when it is not enough
  std::string description() const;
};

// Measures how far a quantized program's outputs are from those of the float program.
class HeldOutData {
 public:
  // Keeps all batches of `data` and the outputs of the float program `reference` for them. peers:
  // processes with other batches, whose errors are included; must outlive this; null: none. Throws
  // Error("quantize", "data", ...) without data.
  HeldOutData(const Graph& reference, const BatchSource& data, Peers* peers = nullptr);
  // The squared error relative to the outputs' energy or, of logits, the KL divergence. REQUIRES:
  // can_run_stepwise(observed.graph) and `observed` is calibrated.
  double error(const ObservedGraph& observed) const;
  HeldOutGain gain(double before, double after) const { return {before, after, vocabulary_ > 0}; }

 private:
  int64_t vocabulary_;  // entries of the logits; 0: no output is logits
  std::vector<std::vector<c10::IValue>> batches_;
  std::vector<std::vector<c10::IValue>> outputs_;
  std::vector<at::Tensor> masks_;
  Peers* peers_;
};

class HeldOutCheck {
 public:
  // Call before the pass. REQUIRES: as for HeldOutData::error(); `observed` outlives this.
  HeldOutCheck(ObservedGraph& observed, HeldOutData data);
  // Call after the pass. REQUIRES: the pass changed only weights, biases and observers.
  HeldOutGain keep_or_undo();
  void undo() { snapshot_.restore(observed_); }

 private:
  ObservedGraph& observed_;
  HeldOutData data_;
  LayerSnapshot snapshot_;
  double before_;
};

// Keeps what calibration and smoothing found out about a program, so that preparing it again with
// other settings and the same data gives the same bits in less time (`octet tune` does this).

struct EffortMemory {
  ObserverMemory observers = {};
  ChannelMemory channels = {};
  // by program: the batches held out and the float program's outputs for them
  std::map<std::string, std::shared_ptr<const HeldOutData>> held_out = {};
};

}  // namespace octet

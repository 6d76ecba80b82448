// How much of the program's output error each op's own error makes, from one pass over the data.
#pragma once

#include <string>
#include <vector>

#include "annotate/calibrate/calibrate.h"
#include "annotate/compare/compare.h"
#include "annotate/observed/peers.h"
#include "core/graph/graph.h"

namespace octet {

struct OpSensitivity {
  std::string name;  // as OpComparison::name
  // Expected squared error of the float outputs that the op's isolated error alone makes, relative
  // to the outputs' energy, to first order: mean of (u J d)^2 over random signs u, with the
  // outputs' Jacobian J at the op and its isolated error d. 0 for ops without shadow.
  double output_error = 0;
};

struct Sensitivities {
  std::vector<OpSensitivity> ops;  // in the subject's order
  // The error that was measured, and what the ops' errors add up to if they are independent. Within
  // a factor of 2 or so the estimate can be trusted.
  double measured = 0, estimated = 0;
};

struct SensitivityOptions {
  int probes = 4;  // random vectors a batch; more make the estimate steadier
  uint64_t seed = 0;
  ProgressCallback progress = {};
  // others that run other batches: of all batches each process has every so-manieth, perhaps none;
  // all get the same result; null: none
  Peers* peers = nullptr;
};

// Keeps the float tensors of one batch, for their gradients. Throws what shadow() throws.
Sensitivities estimate_sensitivities(const Graph& reference, const Graph& subject,
                                     const BatchSource& data,
                                     const SensitivityOptions& options = {});

}  // namespace octet

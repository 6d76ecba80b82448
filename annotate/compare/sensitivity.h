// Estimates how much each op's own error contributes to the error of the program's outputs, from
// one pass over the data.
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
  // Expected squared error of the float outputs due to the op's isolated error d alone, relative to
  // the outputs' energy, to first order: the mean of (u J d)^2 over random signs u, with J the
  // Jacobian of the outputs at the op. 0 for ops without a shadow.
  double output_error = 0;
};

struct Sensitivities {
  std::vector<OpSensitivity> ops;  // in the subject's order
  // The measured error, and the sum of the ops' errors, which assumes that they are independent.
  // The estimate can be trusted when the two agree within a factor of about 2.
  double measured = 0, estimated = 0;
};

struct SensitivityOptions {
  int probes = 4;  // random vectors per batch; more give a less noisy estimate
  uint64_t seed = 0;
  ProgressCallback progress = {};
  // processes that run other batches (round-robin, perhaps none); all get the same result; null:
  // none
  Peers* peers = nullptr;
};

// Holds the float tensors of one batch for their gradients. Throws what shadow() throws.
Sensitivities estimate_sensitivities(const Graph& reference, const Graph& subject,
                                     const BatchSource& data,
                                     const SensitivityOptions& options = {});

}  // namespace octet

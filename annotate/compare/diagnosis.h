// Explains the error of each op of a quantized program (which kind of error dominates, in a
// sentence with figures), and estimates what each op contributes to the error of the outputs.
#pragma once

#include "annotate/calibrate/calibrate.h"
#include "annotate/compare/compare.h"
#include "annotate/observed/peers.h"
#include "core/graph/graph.h"

namespace octet {

enum class Cause {
  kNone,            // equal, or nothing measured
  kAccumulated,     // the op adds little itself; its inputs are wrong already
  kClipped,         // clipping of its output
  kNarrowChannels,  // rounding of channels that span only a few steps of the tensor's scale
  kRounding,        // rounding of its output
  kWeights,         // rounding of its weights
  kOperation,       // its computation: inputs rounded at run time, another kernel, another op
};

std::string_view name_of(Cause cause);  // "clipped"

struct Diagnosis {
  Cause cause = Cause::kNone;
  std::string explanation;  // one sentence with figures; empty for kNone
};

// weights: those of the same op, or null.
Diagnosis diagnose(const OpComparison& op, const WeightComparison* weights);

// Positions in `ops`, largest contribution first: by isolated error relative to the tensor, then by
// accumulated error.
std::vector<size_t> rank(const std::vector<OpComparison>& ops);

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
  // An output whose last dimension has this size holds logits: its error is twice their KL
  // divergence, to second order, instead of their difference. 0: there is none.
  int64_t vocabulary = 0;
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

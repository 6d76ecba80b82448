// Explains the error of each op of a quantized program: which kind of error dominates, in a
// sentence with figures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotate/compare/compare.h"
#include "annotate/compare/weights.h"

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

}  // namespace octet

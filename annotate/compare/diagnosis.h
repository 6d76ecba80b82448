// Where the error of a quantized program comes from, and which kind it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotate/compare/compare.h"
#include "annotate/compare/weights.h"

namespace octet {

enum class Cause {
  kNone,            // equal, or nothing measured
  kAccumulated,     // the op does little by itself; what comes in is wrong
  kClipped,         // what lies outside of its output's range
  kNarrowChannels,  // rounding, of channels that reach a few steps of the tensor's scale
  kRounding,        // rounding of its output
  kWeights,         // rounding of its weights
  kOperation,       // what it computes: inputs rounded per run, another kernel, another op
};

std::string_view name_of(Cause cause);  // "clipped"

struct Diagnosis {
  Cause cause = Cause::kNone;
  std::string explanation;  // one sentence with figures; empty for kNone
};

// weights: of the same op, or null.
Diagnosis diagnose(const OpComparison& op, const WeightComparison* weights);

// Positions in `ops`, those first that add most by themselves: by isolated error relative to the
// tensor, then by accumulated error.
std::vector<size_t> rank(const std::vector<OpComparison>& ops);

}  // namespace octet

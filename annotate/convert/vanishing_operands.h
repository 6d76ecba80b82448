// Sums and concatenations one operand of which is less than half a step of the result's scale, so
// that all of it would be rounded to zero:
//
//   x + branch        x within 4, so the result has steps of 0.03; the branch within 1e-6
//   cat(cls, x)       the class token begins as 1e-6, and a layer norm behind makes it large
//   scores + mask     -3e38 where a key is masked, in both as well
//
// No scale holds both. Such an op is left float.
#pragma once

#include "annotate/observed/observed_graph.h"
#include "core/base/report.h"

namespace octet {

// Leaves them float: add and sub whose operand's observed range is such, or whose result reaches
// beyond 3.4e15, cat and stack with such a constant (a parameter, also expanded or reshaped), and
// the ops behind that share the result's scale. What reads the result and has a spec for it stays
// quantized, what is float reads it unrounded. An entry in the report for each. Runs after
// calibration; fake-quants are left alone, as training has seen the loss. Returns the number of ops
// left float.
int leave_vanishing_operands_float(ObservedGraph& observed, Report& report);

}  // namespace octet

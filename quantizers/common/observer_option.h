// The choice of another observer than a configuration has by default.
#pragma once

#include "annotate/annotation/quant_spec.h"

namespace octet {

// Puts the choice into the spec; without an eps of its own it takes over the spec's. Throws
// Error("quantizer", option, ...) for a spec without scale from data (dynamic, groups), for
// observers that learn no range, and when the observer does not fit the spec or has bad arguments.
void choose_observer(QuantizationSpec& spec, const ObserverChoice& choice, const char* option);

}  // namespace octet

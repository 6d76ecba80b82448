// Wraps observers written in Python (torchao's, or with its interface): a call with a tensor
// observes it, and calculate_qparams() returns (scales, zero points).
#pragma once

#include <string>

#include <nanobind/nanobind.h>

#include "annotate/annotation/quant_spec.h"

namespace octet::python {

// Registers the observer that `make()` returns and gives its name for specs, valid until
// forget_observers(). is_per_channel: whether ch_axis has a meaning. Needs the GIL.
std::string name_observer(nanobind::object make, bool is_per_channel);

void forget_observers();

// Converts (scales, zero points) from Python to tensors. subject: names the source in errors. Needs
// the GIL.
DerivedQParams qparams_from(nanobind::handle given, const std::string& subject);

}  // namespace octet::python

// Observers that Python wrote, torchao's or of its form: called with a tensor, they look at it;
// calculate_qparams() gives (scales, zero points).
#pragma once

#include <string>

#include <nanobind/nanobind.h>

#include "annotate/annotation/quant_spec.h"

namespace octet::python {

// A name by which octet's specs know an observer that `make()` gives, until forget_observers(); the
// scope decides whether ch_axis counts. With the GIL.
std::string name_observer(nanobind::object make, bool is_per_channel);

void forget_observers();

// (scales, zero points) that Python gave, as tensors. subject: what errors name. With the GIL.
DerivedQParams qparams_from(nanobind::handle given, const std::string& subject);

}  // namespace octet::python

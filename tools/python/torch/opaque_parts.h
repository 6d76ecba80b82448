// Opaque parts of quantizers written in Python, with hooks.
#pragma once

#include <vector>

#include <nanobind/nanobind.h>

#include "annotate/graph/opaque_parts.h"
#include "quantizers/common/quantizer_options.h"

namespace octet::python {

// Converts octet.OpaquePart objects. options: for the quantizers of parts. Needs the GIL.
std::vector<OpaquePart> parts_of(nanobind::handle list, const QuantizerOptions& options);

// Adds octet.Island to the module.
void bind_opaque_parts(nanobind::module_& module);

}  // namespace octet::python

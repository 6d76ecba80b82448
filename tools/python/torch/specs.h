// Converts the dataclasses of octet/_quantizer.py (specs) to those of C++ and back.
#pragma once

#include <memory>
#include <string>

#include <nanobind/nanobind.h>

#include "annotate/annotation/quant_spec.h"
#include "annotate/graph/opaque_parts.h"
#include "tools/python/torch/graph_view.h"

namespace octet::python {

// All need the GIL. Throw Error("annotate", ...) for anything but one of octet's four specs, and as
// check_spec does, about `subject`.
SpecVariant spec_of(nanobind::handle given, const std::string& subject);
// For an input or output of an opaque part, SharedQuantizationSpec(0) means its input 0.
BorderSpec border_spec_of(nanobind::handle given, const std::string& subject);

nanobind::object object_of(const SpecVariant& spec, const std::shared_ptr<Scope>& scope);
// A value, or a pair (value, node that reads it).
nanobind::object object_of(const EdgeOrNode& place, const std::shared_ptr<Scope>& scope);

}  // namespace octet::python

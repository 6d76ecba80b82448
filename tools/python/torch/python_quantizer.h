// Calls an octet.Quantizer of Python.
#pragma once

#include <memory>
#include <string>

#include <nanobind/nanobind.h>

#include "annotate/annotation/quantizer.h"
#include "quantizers/common/quantizer_options.h"

namespace octet::python {

// Needs the GIL.
std::unique_ptr<Quantizer> make_python_quantizer(std::string name, nanobind::object quantizer,
                                                 const QuantizerOptions& options);

}  // namespace octet::python

// Declares the parts of octet._octet; each function adds one to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace octet::python {

void bind_compare(nanobind::module_& module);      // compare
void bind_conformance(nanobind::module_& module);  // prove_quantizer
void bind_export(nanobind::module_& module);       // export_onnx
void bind_flow(nanobind::module_& module);       // quantize, prepare, calibrate, convert, qat, tune
void bind_libraries(nanobind::module_& module);  // load_library, allow_op
void bind_lower(nanobind::module_& module);      // lower, explain
void bind_training(nanobind::module_& module);   // QAT with a training loop in Python
void bind_quantizer(nanobind::module_& module);  // support for quantizers written in Python

}  // namespace octet::python

// Include this to write a library that extends the `octet` command, which loads it with --library:
//
//   #include "tools/extension.h"
//   OCTET_EXTENSION() {
//     octet::register_quantizer("acme_npu", make_acme_npu);
//         // --quantizer acme_npu, "base" and "compose" in JSON
//     octet::register_observer("acme_range", octet::ObserverScope::kTensor, make_acme_range);
//         // by name in specs, C++ and JSON
//     octet::register_derive_fn("acme_bias", derive_acme_bias);
//         // by name in specs, C++ and JSON
//     octet::register_opaque_hooks("my.Lstm", {observe_lstm, quantize_lstm});
//         // by class of module, for "opaque" in JSON
//     octet::register_custom_kernel("acme.swish.default", run_swish);
//         // what a lowered program calls
//     octet::register_metric("acme_score", score);
//         // --metric of compare and tune
//     octet::register_backend("acme_npu", make_acme_backend, make_acme_support);
//         // --backend acme_npu of lower; run and bench find it by the name in the .octet file
//   }
//
// Link the library only with octet::extension: the command already contains all of Octet that it
// calls. Ops that it registers with TORCH_LIBRARY exist once it is loaded; a library that has
// only such ops needs no OCTET_EXTENSION.
#pragma once

#include <torch/version.h>

#include "annotate/compare/metric.h"
#include "annotate/graph/opaque_parts.h"
#include "annotate/observers/observer.h"
#include "backends/registry.h"
#include "lowering/program/custom_kernel.h"
#include "quantizers/registry.h"

#ifndef OCTET_VERSION
#error "link the library with octet::extension, which says which Octet it is built for"
#endif

// Both versions must equal the command's, because objects of both are passed between the two.
#define OCTET_EXTENSION_VERSION "octet " OCTET_VERSION ", torch " TORCH_VERSION

// Use once per library, followed by a function body. An exception from it ends the command.
#define OCTET_EXTENSION()                                                                   \
  extern "C" __attribute__((visibility("default"))) const char* octet_extension_version() { \
    return OCTET_EXTENSION_VERSION;                                                         \
  }                                                                                         \
  extern "C" __attribute__((visibility("default"))) void octet_register()

// What a library of your own includes to extend the `octet` command, which loads it with --library:
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
// Link it with octet::extension alone: all it calls of Octet is in the command already. Ops that it
// registers with TORCH_LIBRARY are known from the moment that it is loaded; a library of nothing
// but such ops needs no OCTET_EXTENSION.
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

// Both must agree with the command's: classes of either are passed between the two.
#define OCTET_EXTENSION_VERSION "octet " OCTET_VERSION ", torch " TORCH_VERSION

// Once in a library, with the body of a function behind it. What that throws ends the command.
#define OCTET_EXTENSION()                                                                   \
  extern "C" __attribute__((visibility("default"))) const char* octet_extension_version() { \
    return OCTET_EXTENSION_VERSION;                                                         \
  }                                                                                         \
  extern "C" __attribute__((visibility("default"))) void octet_register()

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
#include "tools/headers_hash.h"

#ifndef OCTET_VERSION
#error "link the library with octet::extension, which says which Octet it is built for"
#endif

#ifdef __clang__
#define OCTET_COMPILER "clang"
#else
#define OCTET_COMPILER "gcc"
#endif
#if defined(_LIBCPP_VERSION)
#define OCTET_STANDARD_LIBRARY "libc++"
#elif _GLIBCXX_USE_CXX11_ABI
#define OCTET_STANDARD_LIBRARY "libstdc++ with the C++11 ABI"
#else
#define OCTET_STANDARD_LIBRARY "libstdc++ with the old ABI"
#endif

// All parts must equal the command's, because objects of Octet, LibTorch and the standard library
// are passed between the two. The hash is that of all public headers: a library that was built with
// other headers may see another layout of the same class.
#define OCTET_EXTENSION_VERSION                                                   \
  "octet " OCTET_VERSION ", torch " TORCH_VERSION ", headers " OCTET_HEADERS_HASH \
  ", " OCTET_COMPILER ", " OCTET_STANDARD_LIBRARY

// Use once per library, followed by a function body. An exception from it ends the command.
#define OCTET_EXTENSION()                                                                   \
  extern "C" __attribute__((visibility("default"))) const char* octet_extension_version() { \
    return OCTET_EXTENSION_VERSION;                                                         \
  }                                                                                         \
  extern "C" __attribute__((visibility("default"))) void octet_register()

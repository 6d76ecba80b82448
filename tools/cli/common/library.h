// Loads shared libraries of users (--library): extensions, which register ops, quantizers,
// observers, derive functions and custom kernels (tools/extension.h), and plug-ins
// (backends/runtime/octet_plugin.h). Also has --allow-op.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/common/options.h"

namespace octet {

// Both options. The command must pass `paths` to load_libraries before anything else; --allow-op
// (core/ops/callable_ops.h) needs no call.
Options library_options(std::vector<std::string>& paths);

// Loads the libraries in order; a loaded library stays loaded. Throws Error("library", path, ...)
// for a file that is missing or not a library, whose symbols do not resolve, that was built for
// another Octet or LibTorch, that registers a name that exists, or that registers nothing.
void load_libraries(const std::vector<std::string>& paths);

// OCTET_EXTENSION_VERSION of the command (tools/extension.h), which that of an extension must equal.
// In a source file of its own, since it changes with every public header.
const char* extension_version();

}  // namespace octet

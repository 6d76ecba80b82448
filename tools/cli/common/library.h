// Loads shared libraries of users (--library), which register ops, quantizers, observers, derive
// functions and custom kernels (tools/extension.h). Also adds --allow-op.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace octet {

// Adds both options, which may be repeated. The command's callback must pass `paths` to
// load_libraries before anything else; --allow-op (core/ops/callable_ops.h) needs no call.
void add_library_option(CLI::App& command, std::vector<std::string>& paths);

// Loads the libraries in order; a loaded library stays loaded. Throws Error("library", path, ...)
// for a file that is missing or not a library, whose symbols do not resolve, that was built for
// another Octet or LibTorch, that registers a name that exists, or that registers nothing.
void load_libraries(const std::vector<std::string>& paths);

}  // namespace octet

// --library: shared libraries of users that register ops, quantizers, observers, derive
// functions and kernels known (tools/extension.h). --allow-op: what else a program may call.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace octet {

// Both options, which may be given several times. The command's callback passes `paths` to
// load_libraries first of all; --allow-op (core/ops/callable_ops.h) takes effect by itself.
void add_library_option(CLI::App& command, std::vector<std::string>& paths);

// In order; a library that is loaded already stays. Throws Error("library", path, ...) for a
// file that is missing or no library, whose symbols do not resolve, that was built for another
// Octet or LibTorch, that registers what is taken, or that registers nothing.
void load_libraries(const std::vector<std::string>& paths);

}  // namespace octet

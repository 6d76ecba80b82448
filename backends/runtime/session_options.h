// Lists the options of a session once for C++, C, Python and pickles. Does not depend on torch.
//
// To add an option, add a member, a row of visit_options(), a member of the same name in
// octet_options (octet.h), and the code that uses it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>

namespace octet {

struct SessionOptions {
  // at least 1; threads beyond the CPUs of this process are not used, and warnings() says so
  int threads = 1;
  // limit of the bytes of inputs, outputs, states, intermediates and additional copies of
  // constants; 0: the machine's memory
  size_t memory_limit = 0;
  // how often a loop may run its body in one run before the run throws; 0: no limit
  size_t loop_limit = 0;
  // at least 1; for open sizes: how many sets of sizes stay compiled, those used last
  size_t cached_shapes = 4;
  // where oneDNN's packed weights are kept for the next start (lowering/program/packed_cache.h);
  // empty: nowhere. Only for programs read from a file.
  std::filesystem::path cache_folder = {};

  // For C++ callers only, not set by users:
  // called before each round of a loop; an exception stops the run
  std::function<void()> before_round = {};
  // limit of the bytes of all compiled sets of sizes; 0: memory_limit. One set always stays.
  size_t cached_bytes = 0;
};

// Calls visit(name, description, field...) for each option that users set, with that field of all
// `options`: SessionOptions, or structs with members of the same names.
template <typename Visit, typename... Options>
void visit_options(const Visit& visit, Options&... options) {
  visit("threads", "1 to 1024; None: all CPUs that this process may use, at most OMP_NUM_THREADS.",
        options.threads...);
  visit("memory_limit",
        "bytes that inputs, outputs, states and intermediates may take; 0: all available memory.",
        options.memory_limit...);
  visit("loop_limit", "how many times a loop may run its body in one call; 0: no limit.",
        options.loop_limit...);
  visit("cached_shapes", "for a program with open sizes: how many sets of sizes stay compiled.",
        options.cached_shapes...);
  visit("cache_folder",
        "where packed weights are kept for the next start (oneDNN); a folder that others may\n"
        "    write is not used.",
        options.cache_folder...);
}

}  // namespace octet

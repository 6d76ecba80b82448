// The options of a session, listed once for C++, C, Python and pickles. Free of torch.
//
// A new option is a member and a row of visit_options(), a member of the same name in octet_options
// (octet.h), and the code that uses it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>

namespace octet {

struct SessionOptions {
  // at least 1; more than there are CPUs for this process are not used, which warnings() says
  int threads = 1;
  // bytes that inputs, outputs, states, intermediates and copies of a constant beyond the first may
  // take at once; 0: what the machine has
  size_t memory_limit = 0;
  // how often a loop may run its body in one run, after which the run throws; 0: without limit
  size_t loop_limit = 0;
  // at least 1; for a program with open sizes: how many sets of sizes stay compiled, the last used
  // ones
  size_t cached_shapes = 4;
  // where oneDNN's packed weights are kept for the next start (lowering/program/packed_cache.h);
  // empty: nowhere. For programs that were read from a file.
  std::filesystem::path cache_folder = {};

  // Of callers in C++, which users do not set:
  // called before each round of a loop, to stop one: what it throws ends the run
  std::function<void()> before_round = {};
  // bytes that compiled sets of sizes may take together; 0: memory_limit. Below what one takes:
  // that one stays.
  size_t cached_bytes = 0;
};

// visit(name, what it means, field...) for each option that users set, with that field of all
// `options`: SessionOptions, or structs with members of the same names.
template <typename Visit, typename... Options>
void visit_options(const Visit& visit, Options&... options) {
  visit("threads", "1 to 1024; None: all CPUs that this process may use, at most OMP_NUM_THREADS.",
        options.threads...);
  visit("memory_limit",
        "bytes that inputs, outputs, states and intermediates may take; 0: what there is.",
        options.memory_limit...);
  visit("loop_limit", "how often a loop may run its body in one call; 0: without limit.",
        options.loop_limit...);
  visit("cached_shapes", "for a program with open sizes: how many sets of sizes stay compiled.",
        options.cached_shapes...);
  visit("cache_folder",
        "where packed weights are kept for the next start (oneDNN); a folder that others may\n"
        "    write is not used.",
        options.cache_folder...);
}

}  // namespace octet

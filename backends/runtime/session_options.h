// Lists the options of a session once for C++, C, Python, pickles and the command. Does not depend
// on torch.
//
// To add an option, add a row here, a member of the same name in octet_options (octet.h), and the
// code that uses it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>

namespace octet {

// OPTION(type, name, default in C++, meaning) for each option that users set
#define OCTET_SESSION_OPTIONS(OPTION)                                                              \
  OPTION(int, threads, 1,                                                                          \
         "how many to use, 1 to 1024; by default all CPUs that this process may use, at most "     \
         "OMP_NUM_THREADS")                                                                        \
  OPTION(size_t, memory_limit, 0,                                                                  \
         "bytes that inputs, outputs, states and intermediates may take; 0: what the machine has") \
  OPTION(size_t, loop_limit, 0, "how many times a loop may run its body in one run; 0: no limit")  \
  OPTION(size_t, cached_shapes, 4,                                                                 \
         "for open sizes: how many sets of sizes stay compiled, those used last; at least 1")      \
  OPTION(size_t, logits_to_keep, 0,                                                                \
         "for language models: how many last positions get scores (logits); 0: all")               \
  OPTION(std::filesystem::path, cache_folder, {},                                                  \
         "a folder that keeps packed weights for the next start (oneDNN), unless others write it")

// Threads beyond the CPUs of this process are not used, and Session::warnings() says so. Programs
// that were not read from a file do not use the cache folder (lowering/program/packed_cache.h).
struct SessionOptions {
#define OCTET_MEMBER(type, name, standard, meaning) type name = standard;
  OCTET_SESSION_OPTIONS(OCTET_MEMBER)
#undef OCTET_MEMBER

  // For C++ callers only, not set by users:
  // called before each round of a loop; an exception stops the run
  std::function<void()> before_round = {};
  // limit of the bytes of all compiled sets of sizes; 0: memory_limit. One set always stays.
  size_t cached_bytes = 0;
};

// Calls visit(name, meaning, field...) for each option that users set, with that field of all
// `options`: SessionOptions, or structs with members of the same names.
template <typename Visit, typename... Options>
void visit_options(const Visit& visit, Options&... options) {
#define OCTET_VISIT(type, name, standard, meaning) visit(#name, meaning, options.name...);
  OCTET_SESSION_OPTIONS(OCTET_VISIT)
#undef OCTET_VISIT
}

}  // namespace octet

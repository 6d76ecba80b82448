// Opens shared libraries on first use instead of linking them, so that their symbols do not collide
// with those of other libraries in the process (backends/README.md).
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "core/base/error.h"

namespace octet {

class IsolatedLibrary {
 public:
  // Opens the first of `sonames` that the dynamic linker finds for this binary: each distribution
  // names the library differently. The library stays open until the process exits. needed: its
  // dependencies that only this binary's run path finds; those that are not found are left to the
  // linker. backend: the subject of error messages. Throws Error.
  IsolatedLibrary(const char* backend, std::initializer_list<const char*> sonames,
                  std::initializer_list<const char*> needed = {});

  // Returns the address of a function of this library or of one of its dependencies; null if this
  // release of the library lacks it.
  void* find_function(const char* name) const;

  // As above, but throws Error if the release lacks it.
  void* function(const char* name) const;

 private:
  const char* backend_;
  const char* soname_;  // the one that was opened
  void* handle_;
  // false where the process does not support isolation: under a sanitizer, or with a libc that does
  // not offer it
  bool is_isolated_;
};

// Returns the file that contains a function or variable; "unknown" when no file does.
std::string file_of(const void* address);

// Calls entry `index` of the table that Addresses() returns. `call` gives a function of an opened
// library as a constant with the type of a function pointer. If the release lacks the function,
// `call` returns `missing`, a status of the library.
template <auto Addresses, size_t index, auto missing, typename Signature>
struct OpenedFunction;

template <auto Addresses, size_t index, auto missing, typename Result, typename... Arguments>
struct OpenedFunction<Addresses, index, missing, Result(Arguments...)> {
  static Result call(Arguments... arguments) {
    void* const address = Addresses()[index];
    if constexpr (std::is_same_v<Result, decltype(missing)>) {
      if (address == nullptr) return missing;
    } else if (address == nullptr) {
      throw Error("backend", "library",
                  "lacks a function that Octet calls; install another release");
    }
    return reinterpret_cast<Result (*)(Arguments...)>(address)(arguments...);
  }
};

}  // namespace octet

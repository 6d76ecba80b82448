// Libraries that are opened when they are first used, not linked: their symbols and those of the
// rest of the process stay apart (backends/README.md).
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>

namespace octet {

class IsolatedLibrary {
 public:
  // Opens `soname` where the dynamic linker finds it for this binary. It stays open until the
  // process ends. needed: libraries that it needs in turn and that may lie where only this binary
  // looks (its run path does not hold for them); one that is not found is left to the linker.
  // backend: the subject of errors. Throws Error.
  IsolatedLibrary(const char* backend, const char* soname,
                  std::initializer_list<const char*> needed = {});

  // The address of a function, of this library or of one that it needs. Throws Error when there is
  // none.
  void* function(const char* name) const;

  // As above, for several libraries.
  template <size_t count>
  std::array<void*, count> functions(const char* const (&names)[count]) const {
    std::array<void*, count> addresses;
    for (size_t i = 0; i < count; ++i) addresses[i] = function(names[i]);
    return addresses;
  }

 private:
  const char* backend_;
  const char* soname_;
  void* handle_;
  // false where the process cannot have that: under a sanitizer, or by a libc that does not offer
  // it
  bool is_isolated_;
};

// The file that a function or variable lies in; "unknown" when it lies in none.
std::string file_of(const void* address);

// Calls entry `index` of the table that Addresses() gives: a function of an opened library, as a
// constant that has the type of a pointer to it.
template <auto Addresses, size_t index, typename Signature>
struct OpenedFunction;

template <auto Addresses, size_t index, typename Result, typename... Arguments>
struct OpenedFunction<Addresses, index, Result(Arguments...)> {
  static Result call(Arguments... arguments) {
    return reinterpret_cast<Result (*)(Arguments...)>(Addresses()[index])(arguments...);
  }
};

}  // namespace octet

// Opens shared libraries on first use instead of linking them, so that their symbols do not collide
// with those of other libraries in the process (backends/README.md).
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>

namespace octet {

class IsolatedLibrary {
 public:
  // Opens `soname` where the dynamic linker finds it for this binary. The library stays open until
  // the process exits. needed: its dependencies that only this binary's run path finds; those that
  // are not found are left to the linker. backend: the subject of error messages. Throws Error.
  IsolatedLibrary(const char* backend, const char* soname,
                  std::initializer_list<const char*> needed = {});

  // Returns the address of a function of this library or of one of its dependencies. Throws Error
  // when it does not exist.
  void* function(const char* name) const;

  // As above, for several functions.
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
  // false where the process does not support isolation: under a sanitizer, or with a libc that does
  // not offer it
  bool is_isolated_;
};

// Returns the file that contains a function or variable; "unknown" when no file does.
std::string file_of(const void* address);

// Calls entry `index` of the table that Addresses() returns. `call` gives a function of an opened
// library as a constant with the type of a function pointer.
template <auto Addresses, size_t index, typename Signature>
struct OpenedFunction;

template <auto Addresses, size_t index, typename Result, typename... Arguments>
struct OpenedFunction<Addresses, index, Result(Arguments...)> {
  static Result call(Arguments... arguments) {
    return reinterpret_cast<Result (*)(Arguments...)>(Addresses()[index])(arguments...);
  }
};

}  // namespace octet

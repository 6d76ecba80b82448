// Opens shared libraries of users.
#pragma once

#include <string>

namespace octet {

struct OpenedLibrary {
  void* handle;   // of dlopen; the library stays open
  bool was_open;  // before
};

// Throws Error("library", path, ...) for a file that is missing or not a library, and for one whose
// symbols do not resolve or whose static objects throw.
OpenedLibrary open_library(const std::string& path);

// The address of a function that the library defines, or null.
void* find_symbol(const OpenedLibrary& library, const char* name);
template <typename Function>
Function* find_function(const OpenedLibrary& library, const char* name) {
  return reinterpret_cast<Function*>(find_symbol(library, name));
}

}  // namespace octet

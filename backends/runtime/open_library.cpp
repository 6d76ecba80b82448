#include "backends/runtime/open_library.h"

#include <dlfcn.h>

#include <filesystem>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace octet {
namespace {

// dlerror() without the path at its beginning.
std::string loader_message(const std::string& path) {
  const char* said = dlerror();
  const std::string text = first_line(said == nullptr ? "no reason given" : said);
  return text.starts_with(path + ": ") ? text.substr(path.size() + 2) : text;
}

}  // namespace

OpenedLibrary open_library(const std::string& shown) {
  std::error_code ignored;
  if (!std::filesystem::exists(shown, ignored))
    throw Error("library", shown, "not found; check the path");
  if (std::filesystem::is_directory(shown, ignored))
    throw Error("library", shown, "is a folder; name the shared library in it");
  // dlopen would search the system's folders for a name without a path
  const std::string path = std::filesystem::absolute(shown).string();
  const bool was_open = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_NOW) != nullptr;
  // dlopen is declared not to throw, although static objects may, so the compiler would drop the
  // handler of a direct call. It cannot do that for a call through a volatile pointer.
  void* (*volatile open)(const char*, int) = dlopen;
  try {
    if (void* handle = open(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return {handle, was_open};
  } catch (const std::exception& error) {
    throw Error("library", shown, fmt::format("cannot be loaded: {}", first_line(error.what())));
  }
  const std::string said = loader_message(path);
  // A mangled name of Octet's namespace: a function that this Octet lacks.
  const bool is_of_octet = said.find("undefined symbol: _Z") != std::string::npos &&
                           said.find("5octet") != std::string::npos;
  throw Error("library", shown,
              fmt::format("cannot be loaded: {}; {}", said,
                          is_of_octet ? "build it again against this Octet"
                                      : "give a shared library that is built for this machine"));
}

void* find_symbol(const OpenedLibrary& library, const char* name) {
  return dlsym(library.handle, name);
}

}  // namespace octet

#include "tools/cli/common/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "core/base/error.h"
#include "core/ops/callable_ops.h"
#include "tools/extension.h"

namespace octet {
namespace {

constexpr const char* kHowTo =
    "write its registrations with OCTET_EXTENSION() of tools/extension.h";

constexpr const char* kBuildAgain = "build it again against this Octet";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// dlerror() without the path at its beginning.
std::string loader_message(const std::string& path) {
  const char* said = dlerror();
  const std::string text = first_line(said == nullptr ? "no reason given" : said);
  return text.starts_with(path + ": ") ? text.substr(path.size() + 2) : text;
}

// Static objects of the library register its ops. Their exceptions leave dlopen, which is declared
// not to throw, so that the compiler would drop the handler of a direct call; hence the volatile
// pointer.
void* open_library(const std::string& path, const std::string& shown) {
  void* (*volatile open)(const char*, int) = dlopen;
  try {
    if (void* handle = open(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  } catch (const std::exception& error) {
    throw Error("library", shown, fmt::format("cannot be loaded: {}", first_line(error.what())));
  }
  const std::string said = loader_message(path);
  // A mangled name of Octet's namespace: a function that this Octet lacks.
  const bool is_of_octet = said.find("undefined symbol: _Z") != std::string::npos &&
                           said.find("5octet") != std::string::npos;
  throw Error("library", shown,
              fmt::format("cannot be loaded: {}; {}", said,
                          is_of_octet ? kBuildAgain
                                      : "give a shared library that is built for this machine"));
}

// The parts of `version` ("octet 0.1.0, torch 2.13.0, ...") that the other one lacks; if it lacks
// none, the whole.
std::string differing_parts(const std::string& version, const std::string& other) {
  const std::vector<std::string> all = CLI::detail::split(other, ',');
  std::vector<std::string> parts;
  for (std::string& part : CLI::detail::split(version, ','))
    if (std::find(all.begin(), all.end(), part) == all.end())
      parts.push_back(CLI::detail::trim_copy(part));
  return parts.empty() ? version : fmt::format("{}", fmt::join(parts, ", "));
}

template <typename Function>
Function* find_function(void* handle, const char* name) {
  return reinterpret_cast<Function*>(dlsym(handle, name));
}

// Returns false if the library has no entry point.
bool call_entry_point(void* handle, const std::string& shown) {
  void (*const enter)() = find_function<void()>(handle, "octet_register");
  if (enter == nullptr) return false;
  const char* (*const version)() = find_function<const char*()>(handle, "octet_extension_version");
  if (version == nullptr)
    throw Error("library", shown,
                fmt::format("has octet_register but not octet_extension_version; {}", kHowTo));
  const std::string got = first_line(version()), want = OCTET_EXTENSION_VERSION;
  if (got != want)
    throw Error("library", shown,
                fmt::format("is built for another Octet, got {}, want {}; {}",
                            differing_parts(got, want), differing_parts(want, got), kBuildAgain));
  try {
    enter();
  } catch (const std::exception& error) {
    throw Error("library", shown,
                fmt::format("its octet_register says: {}", first_line(error.what())));
  }
  return true;
}

size_t op_count() { return c10::Dispatcher::singleton().getAllOpNames().size(); }

void load_library(const std::string& shown) {
  static std::set<void*> loaded;
  std::error_code ignored;
  if (!std::filesystem::exists(shown, ignored))
    throw Error("library", shown, "there is no such file; check the path");
  if (std::filesystem::is_directory(shown, ignored))
    throw Error("library", shown, "is a folder; name the shared library in it");
  // dlopen would search the system's folders for a name without a path
  const std::string path = std::filesystem::absolute(shown).string();
  const bool is_there = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_NOW) != nullptr;
  const size_t ops = op_count();
  void* const handle = open_library(path, shown);
  if (!loaded.insert(handle).second) return;
  if (!call_entry_point(handle, shown) && !is_there && op_count() == ops)
    throw Error("library", shown,
                fmt::format("registers nothing, neither an op with TORCH_LIBRARY nor anything in "
                            "octet_register; {}",
                            kHowTo));
}

}  // namespace

Options library_options(std::vector<std::string>& paths) {
  return {
      Option{"library", &paths,
             "A shared library with custom ops, quantizers, observers or kernels; may be given "
             "several times"}
          .repeated()
          .for_command(),
      Option{"allow_op", TextValue{allow_op},
             "An op that the program may call although it does more than compute, like "
             "aten.from_file: only for files that you trust; may be given several times"}
          .repeated()
          .for_command(),
  };
}

void load_libraries(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) load_library(path);
}

}  // namespace octet

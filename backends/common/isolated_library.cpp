// RTLD_DEEPBIND makes a library and its dependencies prefer their own symbols; RTLD_LOCAL hides
// these symbols from other libraries.
#include "backends/common/isolated_library.h"

#include <dlfcn.h>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

#ifdef RTLD_DEEPBIND
constexpr int kDeepBind = RTLD_DEEPBIND;
#else
constexpr int kDeepBind = 0;
#endif

// Sanitizers abort a process that opens a library with RTLD_DEEPBIND.
constexpr const char* kSanitizerFunctions[] = {"__asan_init", "__hwasan_init", "__msan_init",
                                               "__tsan_init"};

bool has_sanitizer() {
  for (const char* function : kSanitizerFunctions)
    if (dlsym(RTLD_DEFAULT, function) != nullptr) return true;
  return false;
}

}  // namespace

IsolatedLibrary::IsolatedLibrary(const char* backend, std::initializer_list<const char*> sonames,
                                 std::initializer_list<const char*> needed)
    : backend_(backend),
      soname_(*sonames.begin()),
      is_isolated_(kDeepBind != 0 && !has_sanitizer()) {
  const int flags = RTLD_NOW | RTLD_LOCAL | (is_isolated_ ? kDeepBind : 0);
  for (const char* library : needed) dlopen(library, flags);
  std::string reason;  // about the library that Octet was built with, the first
  for (const char* soname : sonames) {
    handle_ = dlopen(soname, flags);
    if (handle_ != nullptr) {
      soname_ = soname;
      return;
    }
    if (reason.empty()) reason = dlerror();
  }
  throw Error("backend", backend,
              fmt::format("{} cannot be opened, got \"{}\", want it in the dynamic linker's "
                          "folders; install it, or name its folder in LD_LIBRARY_PATH",
                          soname_, reason));
}

void* IsolatedLibrary::find_function(const char* name) const {
  // Without isolation, the library resolves symbols in the whole process first, and we must call
  // the same functions as it does.
  void* address = is_isolated_ ? nullptr : dlsym(RTLD_DEFAULT, name);
  return address != nullptr ? address : dlsym(handle_, name);
}

void* IsolatedLibrary::function(const char* name) const {
  void* const address = find_function(name);
  if (address == nullptr)
    throw Error(
        "backend", backend_,
        fmt::format("{} is a release that Octet does not know, got no {}, want it; name the "
                    "folder of another release in LD_LIBRARY_PATH",
                    soname_, name));
  return address;
}

std::string file_of(const void* address) {
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr)
    return "unknown";
  return info.dli_fname;
}

}  // namespace octet

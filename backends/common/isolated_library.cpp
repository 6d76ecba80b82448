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

IsolatedLibrary::IsolatedLibrary(const char* backend, const char* soname,
                                 std::initializer_list<const char*> needed)
    : backend_(backend), soname_(soname), is_isolated_(kDeepBind != 0 && !has_sanitizer()) {
  const int flags = RTLD_NOW | RTLD_LOCAL | (is_isolated_ ? kDeepBind : 0);
  for (const char* library : needed) dlopen(library, flags);
  handle_ = dlopen(soname, flags);
  if (handle_ != nullptr) return;
  throw Error("backend", backend,
              fmt::format("{} cannot be opened, got \"{}\", want it in the dynamic linker's "
                          "folders; install it, or name its folder in LD_LIBRARY_PATH",
                          soname, dlerror()));
}

void* IsolatedLibrary::function(const char* name) const {
  // Without isolation, the library resolves symbols in the whole process first, and we must call
  // the same functions as it does.
  void* address = is_isolated_ ? nullptr : dlsym(RTLD_DEFAULT, name);
  if (address == nullptr) address = dlsym(handle_, name);
  if (address == nullptr)
    throw Error("backend", backend_,
                fmt::format("{} is not the release of the headers, got no {}, want it; put the "
                            "library that Octet was built with first",
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

// Must be in liboctet.so, because it looks up the file that contains it.
#include "tools/python/torch/symbols.h"

#include <dlfcn.h>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet::python {

void show_symbols() {
  Dl_info own{};
  // RTLD_NOLOAD: the library is already open and only becomes visible. Its dependencies do, too;
  // therefore LibTorch must not be one of them (CMakeLists.txt).
  if (dladdr(reinterpret_cast<void*>(&show_symbols), &own) == 0 ||
      dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL) == nullptr) {
    const char* said = dlerror();
    throw Error("library", own.dli_fname == nullptr ? "liboctet.so" : own.dli_fname,
                fmt::format("cannot be made visible to libraries: {}",
                            said == nullptr ? "no reason given" : said));
  }
}

}  // namespace octet::python

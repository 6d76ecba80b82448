// Opens oneDNN and checks its version.
#include "backends/onednn/library.h"

#include <array>

#include <fmt/format.h>

#include "backends/common/isolated_library.h"
#include "core/base/error.h"

namespace octet::onednn {

namespace {

// Throws Error. The C interface of oneDNN stays the same within a major version; releases add
// functions, and OpenedFunction refuses the ones that this release lacks.
const dnnl_version_t& checked(const dnnl_version_t& opened) {
  constexpr int kMajor = 3, kLeastMinor = 2;
  static_assert(DNNL_VERSION_MAJOR == kMajor);
  if (opened.major != kMajor || opened.minor < kLeastMinor)
    throw Error("backend", "onednn",
                fmt::format("Octet does not support this release of oneDNN, got {}.{}.{}, want "
                            "{}.{} or a later {}; name the folder of such a release in "
                            "LD_LIBRARY_PATH",
                            opened.major, opened.minor, opened.patch, kMajor, kLeastMinor, kMajor));
  if (opened.cpu_runtime != DNNL_RUNTIME_OMP)
    throw Error("backend", "onednn",
                fmt::format("the loaded library does not use OpenMP, got CPU runtime {}, want {}; "
                            "use an OpenMP build of it",
                            opened.cpu_runtime, DNNL_RUNTIME_OMP));
  return opened;
}

#ifdef OCTET_ONEDNN_SONAME
#define OCTET_FUNCTION(name) #name,
constexpr const char* kFunctionNames[] = {
#include "onednn_function_list.h"
};
#undef OCTET_FUNCTION

auto opened_functions() {
#if defined(__x86_64__)
  // Check this first, because the library's startup code uses such instructions.
  if (!__builtin_cpu_supports("sse4.1"))
    throw Error(
        "backend", "onednn",
        "oneDNN does not run on this CPU, got one without SSE4.1, want one with it; lower the "
        "program for another backend");
#endif
  // the names of oneDNN's own build, of Debian 13, and of any other
  const IsolatedLibrary library(
      "onednn", {OCTET_ONEDNN_SONAME, "libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so"});
  checked(*reinterpret_cast<decltype(&::dnnl_version)>(library.function("dnnl_version"))());
  std::array<void*, std::size(kFunctionNames)> addresses;
  for (size_t i = 0; i < addresses.size(); ++i)
    addresses[i] = library.find_function(kFunctionNames[i]);
  return addresses;
}
#endif

}  // namespace

#ifdef OCTET_ONEDNN_SONAME
void* const* function_addresses() {
  static const std::array addresses = opened_functions();
  return addresses.data();
}
#endif

std::map<std::string, std::string> library_versions() {
  const dnnl_version_t& opened = checked(*dnnl::version());
  return {{"onednn", fmt::format("{}.{}.{}", opened.major, opened.minor, opened.patch)}};
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

}  // namespace octet::onednn

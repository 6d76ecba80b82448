// Checks that header and library match.
#include "backends/onednn/library.h"

#include <fmt/format.h>

#include "backends/common/isolated_library.h"
#include "core/base/error.h"

namespace octet::onednn {

#ifdef OCTET_ONEDNN_SONAME
namespace {

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
  return IsolatedLibrary("onednn", OCTET_ONEDNN_SONAME).functions(kFunctionNames);
}

}  // namespace

void* const* function_addresses() {
  static const std::array addresses = opened_functions();
  return addresses.data();
}
#endif

std::map<std::string, std::string> library_versions() {
  const dnnl::version_t& opened = *dnnl::version();
  if (opened.major != DNNL_VERSION_MAJOR || opened.minor != DNNL_VERSION_MINOR)
    throw Error("backend", "onednn",
                fmt::format("the loaded library is not the one of the headers, got {}.{}.{}, want "
                            "{}.{}; put the library that Octet was built with first",
                            opened.major, opened.minor, opened.patch, DNNL_VERSION_MAJOR,
                            DNNL_VERSION_MINOR));
  if (opened.cpu_runtime != DNNL_RUNTIME_OMP)
    throw Error("backend", "onednn",
                fmt::format("the loaded library does not use OpenMP, got CPU runtime {}, want {}; "
                            "use an OpenMP build of it",
                            opened.cpu_runtime, DNNL_RUNTIME_OMP));
  return {{"onednn", fmt::format("{}.{}.{}", opened.major, opened.minor, opened.patch)}};
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

}  // namespace octet::onednn

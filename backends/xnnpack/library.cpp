#include "backends/xnnpack/library.h"

#include <filesystem>
#include <new>

#include <fmt/format.h>

#include "backends/common/isolated_library.h"
#include "backends/xnnpack/memory.h"
#include "core/base/error.h"

namespace octet::xnnpack {
namespace {

#ifdef OCTET_XNNPACK_SONAME
#define OCTET_FUNCTION(name) #name,
#define OCTET_FUNCTION_OF_TYPE(name, ...) #name,
constexpr const char* kFunctionNames[] = {
#include "backends/xnnpack/function_list.h"
};
#undef OCTET_FUNCTION
#undef OCTET_FUNCTION_OF_TYPE
#endif

std::string_view words_of(xnn_status status) {
  constexpr std::pair<xnn_status, std::string_view> kWords[] = {
      {xnn_status_success, "success"},
      {xnn_status_uninitialized, "not initialized"},
      {xnn_status_invalid_parameter, "invalid parameter"},
      {xnn_status_invalid_state, "invalid state"},
      {xnn_status_unsupported_parameter, "unsupported parameter"},
      {xnn_status_unsupported_hardware, "unsupported hardware"},
      {xnn_status_out_of_memory, "out of memory"},
  };
  for (const auto& [known, words] : kWords)
    if (known == status) return words;
  return "unknown status";
}

void start() {
  const xnn_status status = xnn_initialize(memory_source());
  if (status != xnn_status_success) {
    throw Error("xnnpack", "xnn_initialize",
                fmt::format("XNNPACK does not start here, got \"{}\", want success; it needs a "
                            "readable /proc/cpuinfo and SSE2 or NEON",
                            words_of(status)));
  }
}

}  // namespace

#ifdef OCTET_XNNPACK_SONAME
void* const* function_addresses() {
  // Finds pthreadpool's functions through XNNPACK, which depends on it, so that both use the same
  // copy.
  static const std::array addresses =
      IsolatedLibrary("xnnpack", OCTET_XNNPACK_SONAME, {"libcpuinfo.so.0", "libpthreadpool.so.0"})
          .functions(kFunctionNames);
  return addresses.data();
}
#endif

void require_success(xnn_status status, const char* call) {
  if (take_failure() || status == xnn_status_out_of_memory) throw std::bad_alloc();
  if (status != xnn_status_success) throw Refusal(fmt::format("{}: {}", call, words_of(status)));
}

void initialize() {
  static const bool started = (start(), true);
  static_cast<void>(started);
}

std::map<std::string, std::string> library_versions() {
#ifdef OCTET_XNNPACK_SONAME
  const void* const function =
      function_addresses()[static_cast<size_t>(FunctionIndex::xnn_initialize)];
#else
  const void* const function = reinterpret_cast<const void*>(&xnn_initialize);
#endif
  const std::string file = std::filesystem::path(file_of(function)).filename().string();
  return {{"xnnpack", fmt::format("{} ({})", file, OCTET_XNNPACK_GENERATION)}};
}

}  // namespace octet::xnnpack

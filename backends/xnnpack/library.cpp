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

const char* words_of(xnn_status status) {
  switch (status) {
    case xnn_status_success:
      return "success";
    case xnn_status_uninitialized:
      return "not initialized";
    case xnn_status_invalid_parameter:
      return "invalid parameter";
    case xnn_status_invalid_state:
      return "invalid state";
    case xnn_status_unsupported_parameter:
      return "unsupported parameter";
    case xnn_status_unsupported_hardware:
      return "unsupported hardware";
    case xnn_status_out_of_memory:
      return "out of memory";
    default:
      return "unknown status";
  }
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

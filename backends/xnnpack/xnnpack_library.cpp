#include "backends/xnnpack/xnnpack_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/xnnpack/xnnpack_memory.h"
#include "core/error.h"

namespace octet::xnnpack {
namespace {

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

std::string library_of(const void* function) {
  Dl_info info{};
  if (function == nullptr || dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "unknown";
  return info.dli_fname;
}

// What we call and what XNNPACK calls; all must come from one library, as they share the pool's memory layout.
constexpr const char* kThreadPoolFunctions[] = {
    "pthreadpool_create",
    "pthreadpool_destroy",
    "pthreadpool_get_threads_count",
    "pthreadpool_parallelize_1d",
    "pthreadpool_parallelize_1d_tile_1d",
    "pthreadpool_parallelize_2d",
    "pthreadpool_parallelize_2d_tile_1d",
    "pthreadpool_parallelize_2d_tile_2d",
    "pthreadpool_parallelize_3d",
    "pthreadpool_parallelize_3d_tile_2d",
    "pthreadpool_parallelize_4d",
    "pthreadpool_parallelize_4d_tile_2d",
    "pthreadpool_parallelize_5d",
    "pthreadpool_parallelize_5d_tile_2d",
    "pthreadpool_parallelize_6d_tile_2d",
};

void start() {
  const std::vector<std::string> libraries = thread_pool_libraries();
  if (libraries.size() != 1) {
    throw Error(
        "xnnpack", "pthreadpool",
        fmt::format("its functions come from several libraries, got {}, want one; link libpthreadpool before LibTorch", fmt::join(libraries, ", ")));
  }
  const xnn_status status = xnn_initialize(memory_source());
  if (status != xnn_status_success) {
    throw Error(
        "xnnpack", "xnn_initialize",
        fmt::format("XNNPACK does not start here, got \"{}\", want success; it needs a readable /proc/cpuinfo and SSE2 or NEON", words_of(status)));
  }
}

}  // namespace

void require_success(xnn_status status, const char* call) {
  if (status != xnn_status_success) throw Refusal(fmt::format("{}: {}", call, words_of(status)));
}

void initialize() {
  static const bool started = (start(), true);
  static_cast<void>(started);
}

std::map<std::string, std::string> library_versions() {
  const std::string file = std::filesystem::path(library_of(reinterpret_cast<const void*>(&xnn_initialize))).filename().string();
  return {
      {"xnnpack", fmt::format("{} ({})", file, OCTET_XNNPACK_GENERATION)}
  };
}

std::vector<std::string> thread_pool_libraries() {
  std::vector<std::string> libraries;
  for (const char* name : kThreadPoolFunctions) {
    const void* function = dlsym(RTLD_DEFAULT, name);
    if (function == nullptr) continue;  // this release of pthreadpool lacks it, so XNNPACK does not call it either
    libraries.push_back(library_of(function));
  }
  std::sort(libraries.begin(), libraries.end());
  libraries.erase(std::unique(libraries.begin(), libraries.end()), libraries.end());
  return libraries;
}

}  // namespace octet::xnnpack

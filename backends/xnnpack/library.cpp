#include "backends/xnnpack/library.h"

#include <array>
#include <filesystem>
#include <new>

#include <fmt/format.h>

#include "backends/common/isolated_library.h"
#include "backends/xnnpack/memory.h"
#include "core/base/error.h"

namespace octet::xnnpack {
namespace {

#ifdef OCTET_XNNPACK_SONAME
struct Opened {
  std::array<void*, static_cast<size_t>(FunctionIndex::kCount)> addresses;
  Release release = Release::k2022;
};

// The first row whose function the library has tells its release.
constexpr std::pair<const char*, Release> kReleases[] = {
    {"xnn_define_fuse_dims", Release::k2025},
    {"xnn_define_binary", Release::k2024},
    {"xnn_define_tanh", Release::k2023},
};

Opened open_library() {
  // The names of Debian 12, of Debian 13, and of any other. Finds pthreadpool's functions through
  // XNNPACK, which depends on it, so that both use the same copy.
  const IsolatedLibrary library(
      "xnnpack",
      {OCTET_XNNPACK_SONAME, "libXNNPACK.so.0", "libXNNPACK.so.0.20241108", "libXNNPACK.so"},
      {"libcpuinfo.so.0", "libpthreadpool.so.0"});
  Opened opened;
  size_t next = 0;
#define OCTET_FUNCTION(name) opened.addresses[next++] = library.function(#name);
#define OCTET_FUNCTION_OF_TYPE(name, ...) OCTET_FUNCTION(name)
#define OCTET_NEWER_FUNCTION(name, ...) opened.addresses[next++] = library.find_function(#name);
#include "backends/xnnpack/function_list.h"
#undef OCTET_FUNCTION
#undef OCTET_FUNCTION_OF_TYPE
#undef OCTET_NEWER_FUNCTION
  for (const auto& [function, release] : kReleases) {
    if (library.find_function(function) == nullptr) continue;
    opened.release = release;
    break;
  }
  return opened;
}

const Opened& opened_library() {
  static const Opened opened = open_library();
  return opened;
}
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
void* const* function_addresses() { return opened_library().addresses.data(); }
Release opened_release() { return opened_library().release; }
#else
Release opened_release() { return Release::k2022; }
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
  return {{"xnnpack", fmt::format("{} ({})", file, 2022 + static_cast<int>(opened_release()))}};
}

}  // namespace octet::xnnpack

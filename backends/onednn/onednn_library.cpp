// Header and library must agree: a process may hold a second oneDNN (LibTorch has one inside).
#include "backends/onednn/onednn_library.h"

#include <fmt/format.h>

#include "core/error.h"

namespace octet::onednn {

std::map<std::string, std::string> library_versions() {
  const dnnl::version_t& linked = *dnnl::version();
  if (linked.major != DNNL_VERSION_MAJOR || linked.minor != DNNL_VERSION_MINOR)
    throw Error(
        "backend", "onednn",
        fmt::format("the loaded library is not the one of the headers, got {}.{}.{}, want {}.{}; put the library that Octet was built with first",
                    linked.major, linked.minor, linked.patch, DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR));
  if (linked.cpu_runtime != DNNL_RUNTIME_OMP)
    throw Error("backend", "onednn",
                fmt::format("the loaded library does not use OpenMP, got CPU runtime {}, want {}; take an OpenMP build of it", linked.cpu_runtime,
                            DNNL_RUNTIME_OMP));
  return {
      {"onednn", fmt::format("{}.{}.{}", linked.major, linked.minor, linked.patch)}
  };
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

}  // namespace octet::onednn

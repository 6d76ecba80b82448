// The list of backends: one row each.
#include "backends/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/reference/reference_backend.h"
#include "core/base/error.h"
#ifdef OCTET_WITH_ONEDNN
#include "backends/onednn/backend.h"
#include "backends/onednn/support.h"
#endif
#ifdef OCTET_WITH_XNNPACK
#include "backends/xnnpack/backend.h"
#include "backends/xnnpack/support.h"
#endif

namespace octet {
namespace {

template <typename Base, typename Derived>
std::unique_ptr<Base> make() {
  return std::make_unique<Derived>();
}

struct BackendRow {
  const char* name;
  std::unique_ptr<Backend> (*make_backend)();
  std::unique_ptr<BackendSupport> (*make_support)();
};

const BackendRow kBackends[] = {
#ifdef OCTET_WITH_ONEDNN
    {"onednn",    make<Backend, OneDnnBackend>,    make<BackendSupport, OneDnnSupport>   },
#endif
#ifdef OCTET_WITH_XNNPACK
    {"xnnpack",   make<Backend, XNNPACKBackend>,   make<BackendSupport, XNNPACKSupport>  },
#endif
    {"reference", make<Backend, ReferenceBackend>, make<BackendSupport, ReferenceSupport>},
};

const BackendRow& backend_row(const std::string& name) {
  for (const BackendRow& row : kBackends)
    if (row.name == name) return row;
  throw Error("backend", name,
              fmt::format("is not in this build, want one of {}; build Octet with it",
                          fmt::join(backend_names(), ", ")));
}

}  // namespace

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const BackendRow& row : kBackends) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<Backend> make_backend(const std::string& name) {
  return backend_row(name).make_backend();
}

std::unique_ptr<BackendSupport> make_support(const std::string& name) {
  return backend_row(name).make_support();
}

}  // namespace octet

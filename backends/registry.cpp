// Lists this build's backends, one row each, and the registered ones.
#include "backends/registry.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/reference/reference_backend.h"
#include "core/base/error.h"
#include "core/base/user_code.h"
#include "lowering/program/control.h"
#ifdef OCTET_WITH_ONEDNN
#include "backends/onednn/backend.h"
#endif
#ifdef OCTET_WITH_XNNPACK
#include "backends/xnnpack/backend.h"
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
    {"onednn", make<Backend, OneDnnBackend>, make<BackendSupport, OneDnnSupport>},
#endif
#ifdef OCTET_WITH_XNNPACK
    {"xnnpack", make<Backend, XNNPACKBackend>, make<BackendSupport, XNNPACKSupport>},
#endif
    {"reference", make<Backend, ReferenceBackend>, make<BackendSupport, ReferenceSupport>},
};

const BackendRow* find_own_row(const std::string& name) {
  for (const BackendRow& row : kBackends)
    if (row.name == name) return &row;
  return nullptr;
}

struct Makers {
  BackendMaker make_backend;
  BackendSupportMaker make_support;
};

struct Registered {
  std::mutex mutex;
  std::map<std::string, Makers> makers;
};

Registered& registered() {
  static Registered all;
  return all;
}

Makers makers_of(const std::string& name) {
  if (const BackendRow* row = find_own_row(name)) return {row->make_backend, row->make_support};
  {
    const std::lock_guard<std::mutex> lock(registered().mutex);
    const auto found = registered().makers.find(name);
    if (found != registered().makers.end()) return found->second;
  }
  throw Error("backend", name,
              fmt::format("is not in this build, want one of {}; build Octet with it, or load the "
                          "library that registers it ({})",
                          fmt::join(backend_names(), ", "), kBackendRemedy));
}

// Throws when a registered function made nothing, or something of another name.
template <typename Made>
std::unique_ptr<Made> checked(const std::string& name, const char* what,
                              const std::function<std::unique_ptr<Made>()>& make_one) {
  std::unique_ptr<Made> made =
      in_user_code("backend", name, fmt::format("the function that makes its {}", what), make_one);
  if (made == nullptr)
    throw Error(
        "backend", name,
        fmt::format("the function that makes its {} returned null; return an object", what));
  if (made->name() != name)
    throw Error("backend", name,
                fmt::format("its {} says that its name() is \"{}\", want the registered name", what,
                            made->name()));
  return made;
}

bool is_word(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
}

}  // namespace

void register_backend(const std::string& name, BackendMaker make_backend,
                      BackendSupportMaker make_support) {
  if (!is_word(name))
    throw Error("library", fmt::format("\"{}\"", name),
                "is not a valid backend name, want letters, digits and '_', such as acme_npu");
  if (!make_backend || !make_support)
    throw Error("library", name,
                "got no backend or no support for it; register a function for each");
  const std::lock_guard<std::mutex> lock(registered().mutex);
  const bool is_reserved = name == kControl || name == "octet";  // in programs
  if (find_own_row(name) != nullptr || is_reserved || registered().makers.count(name) != 0)
    throw Error("library", name, "is already a backend; register it under another name");
  registered().makers.emplace(name, Makers{std::move(make_backend), std::move(make_support)});
}

std::string with_remedy(std::string text, std::string_view remedy) {
  if (const size_t at = text.find(kBackendRemedy); at != std::string::npos)
    text.replace(at, kBackendRemedy.size(), remedy);
  return text;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const BackendRow& row : kBackends) names.emplace_back(row.name);
  const std::lock_guard<std::mutex> lock(registered().mutex);
  for (const auto& [name, makers] : registered().makers) names.push_back(name);
  return names;
}

bool is_in_build(const std::string& name) { return find_own_row(name) != nullptr; }

std::unique_ptr<Backend> make_backend(const std::string& name) {
  return checked<Backend>(name, "backend", makers_of(name).make_backend);
}

std::unique_ptr<BackendSupport> make_support(const std::string& name) {
  return checked<BackendSupport>(name, "support", makers_of(name).make_support);
}

Supports make_supports(const std::string& names) {
  Supports supports;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    if (name.empty())
      throw Error("backend", fmt::format("\"{}\"", names),
                  "has an empty name, want e.g. acme_npu,xnnpack");
    supports.push_back(make_support(name));
    begin = end + 1;
  }
  return supports;
}

std::string ops_page() {
  std::vector<BackendKinds> columns;
  for (const std::string& name : backend_names())
    if (BackendKinds column{name, make_support(name)->kinds()}; !column.kinds.empty())
      columns.push_back(std::move(column));
  return contracts_page(columns);
}

}  // namespace octet

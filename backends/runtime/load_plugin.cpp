// Checks the table of a plug-in before it registers the backend.
#include "backends/runtime/load_plugin.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include "backends/registry.h"
#include "backends/runtime/open_library.h"
#include "backends/runtime/plugin_backend.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/user_code.h"
#include "lowering/program/artifact_format.h"

namespace octet {
namespace {

constexpr size_t kLongestWord = 64;
constexpr size_t kLongestText = 4000;
constexpr size_t kLongestList = 10'000;
constexpr size_t kLargestTable = 1 << 16;
// The members up to `destroy` are required.
constexpr size_t kLeastSize = offsetof(octet_plugin, reads_compact);

using PluginEntry = decltype(octet_plugin_entry);

class TableReader {
 public:
  TableReader(std::string path, const octet_plugin& given)
      : path_(std::move(path)), given_(given) {}

  Plugin read() {
    check_version();
    std::memcpy(&plugin_.table, &given_, std::min(given_.size, sizeof(plugin_.table)));
    const octet_plugin& table = plugin_.table;
    plugin_.name = word("name", table.name);
    plugin_.version = word("version", table.version);
    require(table.accepts != nullptr, "accepts");
    require(table.compile != nullptr, "compile");
    require(table.run != nullptr, "run");
    require(table.destroy != nullptr, "destroy");
    list("versions", table.version_count, table.versions, [&](const octet_plugin_version& each) {
      plugin_.versions[word("versions", each.name)] = word("versions", each.version);
    });
    plugin_.versions[plugin_.name] = plugin_.version;
    list("tolerances", table.tolerance_count, table.tolerances,
         [&](const octet_plugin_tolerance& each) {
           plugin_.tolerances.push_back({text("tolerances", each.cells), each.steps, each.relative,
                                         text("tolerances", each.reason)});
         });
    list("kinds", table.kind_count, table.kinds,
         [&](const char* each) { plugin_.kinds.push_back(word("kinds", each)); });
    return std::move(plugin_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error("library", path_, message);
  }

  void check_version() const {
    if (given_.size < kLeastSize || given_.size > kLargestTable)
      fail(fmt::format("its table has the size {}, want sizeof(octet_plugin), which is {} here",
                       given_.size, sizeof(octet_plugin)));
    if (given_.interface_version != OCTET_PLUGIN_INTERFACE)
      fail(
          fmt::format("it has version {} of the plug-in interface, this Octet has {}; build it "
                      "against the octet_plugin.h of this Octet",
                      given_.interface_version, OCTET_PLUGIN_INTERFACE));
  }

  void require(bool is_there, const char* member) const {
    if (!is_there) fail(fmt::format("its table has no {}; only later members may be NULL", member));
  }

  std::string text(const char* member, const char* given, size_t longest = kLongestText) const {
    require(given != nullptr, member);
    const size_t length = ::strnlen(given, longest + 1);
    if (length == 0 || length > longest)
      fail(fmt::format("{} in its table has {} characters, want 1 to {}", member,
                       length == 0 ? "no" : "too many", longest));
    return std::string(given, length);
  }

  std::string word(const char* member, const char* given) const {
    return text(member, given, kLongestWord);
  }

  template <typename Entry, typename Add>
  void list(const char* member, size_t count, const Entry* entries, const Add& add) const {
    if (count > kLongestList)
      fail(fmt::format("{} in its table has {} entries, want at most {}", member, count,
                       kLongestList));
    require(count == 0 || entries != nullptr, member);
    for (size_t i = 0; i < count; ++i) add(entries[i]);
  }

  const std::string path_;
  const octet_plugin& given_;
  Plugin plugin_;
};

std::string hash_of(const std::string& path) {
  const MappedFile file = map_file(path, FileAccess::kReadOnly);
  if (file.data == nullptr)
    throw Error("library", path, "cannot be read for its hash; make the file readable");
  Checksum sum;
  sum.add({file.data, file.size});
  return "xxh64 " + artifact::checksum_digits(sum.value());
}

// The table that the entry point returns.
const octet_plugin& table_of(const OpenedLibrary& library, const std::string& path) {
  PluginEntry* const entry = find_function<PluginEntry>(library, kPluginEntry);
  if (entry == nullptr)
    throw Error("library", path,
                fmt::format("does not define {}; write a plug-in with octet_plugin.h, or in C++ "
                            "with OCTET_PLUGIN of backends/plugin/plugin.h",
                            kPluginEntry));
  char message[2048] = "";
  const octet_plugin* const table =
      in_user_code("library", path, fmt::format("its {}", kPluginEntry),
                   [&] { return entry(OCTET_PLUGIN_INTERFACE, message, sizeof(message)); });
  if (table != nullptr) return *table;
  const std::string said(message, ::strnlen(message, sizeof(message)));
  throw Error("library", path,
              said.empty() ? fmt::format("its {} returned NULL without a message", kPluginEntry)
                           : fmt::format("its {} says: {}", kPluginEntry, said));
}

// Adds the file to the message of the registry.
void register_plugin(const std::string& path, const Plugin& plugin) {
  try {
    register_backend(
        plugin.name, [&plugin] { return std::make_unique<PluginBackend>(plugin); },
        [&plugin] { return std::make_unique<PluginSupport>(plugin); });
  } catch (const Error& error) {
    throw Error("library", path, "its backend " + error.without_stage());
  }
}

}  // namespace

std::string load_plugin(const std::string& path) {
  static std::mutex mutex;
  // By handle. Never freed, because a backend may run until the process ends.
  static auto& loaded = *new std::map<void*, std::unique_ptr<const Plugin>>;
  const std::lock_guard<std::mutex> lock(mutex);
  const OpenedLibrary library = open_library(path);
  std::unique_ptr<const Plugin>& plugin = loaded[library.handle];
  if (plugin != nullptr) return plugin->name;
  auto read = std::make_unique<Plugin>(TableReader(path, table_of(library, path)).read());
  read->hash = hash_of(path);
  register_plugin(path, *read);
  plugin = std::move(read);
  return plugin->name;
}

}  // namespace octet
